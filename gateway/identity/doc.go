// Package identity says who is calling.
//
//	who, err := identity.New(ctx, cfg)          // fetches each issuer's keys once
//	caller, err := who.Identify(ctx, request)   // per call; microseconds for credentials seen before
//	defer who.Close()
//
// The gate asks it first, and asks nothing else who a person is. The answer is a Caller, or a *Refusal whose Class tells
// three things apart that must never be mixed up: a bad credential (Unauthenticated), a fault of the house
// (Class.Unavailable), and a known person who is not wanted (Class.Denied).
//
// # Certificates
//
// A person's certificate chains to one of Config.PeopleCAs, has the extended key usage clientAuth, and names the person
// in URI subject alternative names:
//
//	bronzeward://identity?issuer=<escaped>&kind=human|automation&subject=<escaped>    exactly one
//	bronzeward://group/<escaped>                                                      any number
//
// IdentityURI and GroupURI write them. Any other bronzeward: URI refuses the certificate; URIs of other schemes are
// passed over. The handshake only proves possession of the key; everything else is judged here, per call, so that a
// wrong certificate gets a reason and an expired one ends with its time. Certificates of Config.ForbiddenCAs (Talos's) are
// refused by name, even when someone has cross-signed them.
//
// Config.Authorities gives authorities of both kinds that change while the process runs, asked at every call. During a
// rotation two for people are trusted at once; what is dropped refuses at the next call, and so does what is forbidden. A key
// that is forbidden speaks for nobody, whichever list it stands in.
//
// CertificateTemplate and CheckIssued are the other side: what a certificate says that the gateway has signed for a caller.
//
// # Tokens
//
// A token is a signed JWT: an OpenID Connect ID token whose audience is this gateway's client, or an access token after
// RFC 9068. It comes as the password of Basic authorization, which is how talosconfig's auth.basic sends it, or as Bearer.
// The user name beside it is ignored: the token alone says who it is for. Needed are iss, sub, aud, exp and iat; nbf and jti
// are judged when there; a kid is needed as soon as the issuer publishes more than one key. Algorithms are asymmetric,
// and must fit the key. Refused whatever they say: encrypted tokens, headers that bring a key along or must be understood
// (jwk, jku, x5u, crit, b64, zip), tokens of other types, tokens bound to a key (cnf), names that occur twice in any JSON
// object, more than 16 KiB.
//
// Clock skew is granted on a token's times: accepted while now < exp+skew, now >= nbf-skew, now >= iat-skew. The lifetime
// exp-iat may not exceed Config.MaxLifetime, so that a stolen token is soon worth nothing.
//
// A caller is human unless something says automation: the issuer's entry, its KindClaim, or a claim in AutomationWhen.
// Nothing turns automation back into human. An issuer that speaks for machines needs one of the three.
//
// # Both
//
// With a certificate and a token both must be good and name the same issuer, subject and kind. Groups are the
// token's when it has the groups claim, an empty one included, else the certificate's; never the union. The proof ends
// with the one that ends first.
//
// # Keys
//
// Each issuer has one goroutine that fetches its key set: at New, every Config.JWKSRefresh, and when a token names a key
// that is not held, at most once per Config.UnknownKidCooldown however many such tokens come. An answer that is no
// key set, or has no usable key left, is treated as an outage: the last good set stays, and ages. When it is older than
// Config.JWKSMaxAge, tokens are refused as keys-unavailable. While the latest fetch erred an unknown key is
// keys-unavailable too: nobody can say whether it exists.
//
// Verified tokens and certificates are remembered by SHA-256 in bounded caches. A remembered token is used only while the
// key set that verified it is the current one, a certificate while the authorities that proved it are; times and the deny list are judged at every call.
//
// # Whom this trusts
//
// Each configured issuer is trusted to say who is who among its own subjects: whoever controls it, its signing keys, or the
// TLS of its key set's address can be any of its people, in any group, human or not, until it is taken out of the
// configuration. It is not trusted with another issuer's people, because issuer and subject together are the person; it
// is trusted with group names, which all issuers share unless Config sets a GroupPrefix. The authorities in
// PeopleCAs are trusted with everybody: their certificates may name any issuer. The caller is trusted with nothing that a
// signature does not cover.
//
// The clock is Config.Now; ages of key sets and cool-downs use the process's monotonic clock.
package identity
