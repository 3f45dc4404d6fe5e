// Package notify tells approvers that a change waits for them: one signed webhook per change,
// from the outbox that the change was captured with.
//
//	capture ──same transaction──▶ outbox row, waiting
//	claim (one more try, not due before the lease ends) ──▶ describe ──▶ sign ──▶ POST
//	   2xx ──▶ sent      anything else ──▶ waiting, due later      no more tries, or 410 ──▶ dead
//
// A Sender runs on every replica; the database decides which of them takes a notice. Notices
// are sent at least once and in no particular order. The webhook-id is the notice's id at
// every try, so a receiver that keeps the ids it has seen acts once.
//
// The request follows Standard Webhooks 1.0.0: webhook-id, webhook-timestamp (of the try) and
// webhook-signature, HMAC-SHA256 under a whsec_ secret, over a JSON body of type, timestamp (of
// the capture) and data. With two secrets in the file there are two signatures, so that a
// receiver can change its secret at its own time. The file is read at each try: a new secret
// needs no restart.
//
// # What the receiver can do to us
//
// It is another house's server and may be slow, broken or hostile. A try ends after Timeout,
// connection and answer included; at most Concurrency tries run, each in its own goroutine, and
// nothing but other notices ever waits for one. Of the answer the status and Retry-After count;
// at most 4 KiB of its body are read and none of it is kept. Redirects are not followed: where
// approvers are told is configuration. For the same reason proxies of the environment are not
// used; a proxy is set in Config or there is none. http:// is for loopback addresses, unless
// told otherwise: the signature proves who sent a notice and hides nothing of it.
//
// # A change that does not wait any more
//
// It is not announced: an approver who follows such a notice finds nothing to do, and learns to
// ignore the next. Its notice becomes dead and says so, in the list of dead notices, because
// whoever looks after the webhook wants to know which changes nobody was told of; it is
// counted apart ("overtaken"), because nothing is broken. A change that comes back to waiting
// when an approval is revoked is not announced again.
//
// # What a crash leaves
//
// Before the claim, nothing. Between the claim and the POST, or between the POST and its
// outcome: a waiting row that is due when the lease ends, one try further; whoever claims it
// sends it, in the second case for the second time. A notice whose tries were all used up by
// processes that died is dead without being sent once more. Run ends only after the tries under
// way have ended, so that stopping repeats nothing.
//
// # Trust
//
// The receiver is trusted with what Describe gives: who wants to change which machine, and the
// redacted difference. It is not trusted to say anything. Whoever has a secret of the file can
// send approvers notices of changes that do not exist, which approve nothing.
package notify
