package control

import _ "embed"

// Statements about the law: what proves it, who agreed to it, how it became live.
var (
	//go:embed queries/bundle_live.sql
	sqlBundleLive string
	//go:embed queries/bundle_signature_add.sql
	sqlBundleSignatureAdd string
	//go:embed queries/bundle_signatures.sql
	sqlBundleSignatures string
	//go:embed queries/bundle_approve.sql
	sqlBundleApprove string
	//go:embed queries/bundle_agreed.sql
	sqlBundleAgreed string
	//go:embed queries/bundle_highest.sql
	sqlBundleHighest string
	//go:embed queries/bundle_came.sql
	sqlBundleCame string
	//go:embed queries/bundles_activated.sql
	sqlBundlesActivated string
	//go:embed queries/bundles_named.sql
	sqlBundlesNamed string
	//go:embed queries/people_seen.sql
	sqlPeopleSeen string
	//go:embed queries/bundle_proofs_count.sql
	sqlBundleProofsCount string
	//go:embed queries/replica_report.sql
	sqlReplicaReport string
	//go:embed queries/replicas.sql
	sqlReplicas string
	//go:embed queries/bundle_prepare.sql
	sqlBundlePrepare string
	//go:embed queries/bundles_asked.sql
	sqlBundlesAsked string
	//go:embed queries/bundle_proof_kept.sql
	sqlBundleProofKept string
)
