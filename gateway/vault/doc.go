// Package vault asks OpenBao for what the gateway must not keep itself: the keys that seal waiting
// changes, the keys of digests, the Talos credentials, the authority for people's certificates, the
// signature under checkpoints, and the anchor. It is the only importer of OpenBao's client.
//
//	KV     talos/CLUSTER   Credentials       the certificate shown to a cluster's machines
//	       digest-keys     DigestKeys        k1, k2, …, wrapped by Transit
//	       ca              Authority         public certificates, two during a rotation
//	       anchor          Anchors           the epoch and the book's head, by check-and-set
//	Transit bronzeward-seal       Sealer            wraps a data key for each change
//	        bronzeward-digest     DigestKeys        wraps the digest keys
//	        bronzeward-checkpoint CheckpointSigner  signs checkpoints
//	        bronzeward-ca         Authority         signs people's certificates
//
// # The rooms
//
// client.go puts one question within its timeout (transport.go: what is read of an answer; kv.go
// and transitkey.go: the two engines), login.go and renew.go keep a token, errors.go says why a
// question failed. Each thing above has a file of its own. setup.go, setupaccess.go,
// setupcontent.go and access.go are for operators: what there must be, and what the gateway's login
// may do. development.go and envelope.go seal with a file of keys, for the demo and for tests.
//
// # Order at start
//
// Open logs in. A Keeper then reads credentials, digest keys and authority once; the gateway
// serves when that succeeded. From then on the Keeper reads them anew every DefaultRefresh, and the
// calls take what is in memory. Only Sealer (one question for each change sealed or opened),
// Authority.Issue, CheckpointSigner and Anchors ask OpenBao while somebody waits.
//
// # Sealed bytes
//
//	text + what it belongs to ──Seal──▶ envelope, kept in control.sealed_bytes
//	envelope + what it belongs to ──Open──▶ the text, or a typed refusal
//
// PostgreSQL, its write-ahead log and a dump of it never hold configuration text. What the text
// belongs to (change, machine, digest; AssociatedData puts them together) is authenticated and not
// kept in the envelope: bytes sealed for one change open for no other, and a row that was moved,
// swapped or altered is refused as Altered. Sealer and Development do the same with other keys; the
// envelope's first byte tells them apart, and envelopes of the one are Refused by the other.
//
// # When it cannot be had
//
// An Error has one of three classes, for errors.Is, and a reason class (Kind):
//
//	ErrUnavailable  nothing was found out; the same call may succeed a moment later
//	  sealed        OpenBao is sealed
//	  unreachable   no connection, or another certificate than openbao.ca's; nothing read yet
//	  slow          no answer within the timeout, all tries together
//	  failing       an answer that is no use: 5xx, 429, a redirect, none of OpenBao's, too long
//	  cancelled     whoever asked is gone
//	ErrRefused      OpenBao answered and will not do it: a person must act, and the text says on what
//	  forbidden     403, or the login is not taken
//	  missing       nothing at that path, or a file of the login is not there
//	  key_missing   the Transit key was deleted, or never made
//	  key_recreated deleted and made anew under its name: the other creation time shows it
//	  key_version_below_minimum, key_version_unknown
//	                raised past, or trimmed; or OpenBao is older than the database
//	  moved         check-and-set: somebody else wrote it in between
//	  other_epoch, forked
//	                the anchor is of another epoch, or has another root at that size
//	  malformed     what is there has another shape
//	ErrAltered      (altered) these bytes are not what was sealed for this change
//
// In all three nothing is sent and the change stays unspent. ErrRefused is no proof that anybody
// touched the bytes, hence not ErrAltered, and no outage, hence not ErrUnavailable.
//
// OpenBao answers a token that it does not know and one that may not alike. So a 403 is followed
// by asking the token to look at itself; only when that is refused too there is one login, shared
// by all who saw the same token, and one more try.
//
// # Trust
//
// OpenBao is trusted: whoever has its unseal keys or a root token can open every sealed change that
// he can also read from the database, sign as anybody, and act on machines with the credentials. The
// gateway's own login can read the credentials and unwrap keys, and can neither make, rotate, export
// nor delete a key. Whoever can only write to KV can take things away, and can put another
// credential or authority there: these paths are the operator's. The development key file is
// trusted as its mode protects it, which is why it is for development. Nothing is read from the
// environment, no proxy is used and no redirect followed: the token goes to openbao.address alone.
//
// # What a crash leaves
//
// Nothing here is kept between calls but what memory holds. A process that ends after Seal and
// before the transaction commits leaves no envelope anywhere; one that ends after it leaves a change
// whose bytes any replica can open. A token that was not given back ends within its hour. A digest
// key is in KV whole or not at all, and is used only minutes later, when every replica has it. A
// rotation of the authority that is cut short leaves a version of the key that nothing uses. Setup
// goes on where it was. Text in memory is not wiped, and a core dump would hold it.
package vault
