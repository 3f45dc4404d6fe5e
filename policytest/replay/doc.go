// Package replay judges past decisions again: by a draft of the law, to see what it would change
// before it is live, or each by the law it was made by, which must change nothing.
//
// A past decision is what the law said and what the gateway added to it. Only the law is asked
// again. What the gateway added stands as it is recorded: an invariant, a hold in flight, a house
// in recovery refuse under every law. So the verdict of a replay is what the caller would have been
// told, and a reason that differs is one that a rule gives or gives no more.
//
// Nothing is guessed. Facts that an old record lacks are undefined, as they would be in Rego, and
// are named beside what was judged without them; what cannot be judged at all is counted by its
// cause.
package replay
