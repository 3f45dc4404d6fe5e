package control

import _ "embed"

// The statements about drift, one per file, in queries/.
var (
	//go:embed queries/drift_add.sql
	sqlDriftAdd string
	//go:embed queries/drift_found.sql
	sqlDriftFound string
	//go:embed queries/drift_close.sql
	sqlDriftClose string
	//go:embed queries/drift.sql
	sqlDrift string
	//go:embed queries/drift_open.sql
	sqlDriftOpen string
	//go:embed queries/drifts.sql
	sqlDrifts string
	//go:embed queries/drifts_open.sql
	sqlDriftsOpen string
	//go:embed queries/drifts_count.sql
	sqlDriftsCount string
	//go:embed queries/machine_sight.sql
	sqlMachineSight string
	//go:embed queries/machine_sights.sql
	sqlMachineSights string
	//go:embed queries/machine_sight_again.sql
	sqlMachineSightAgain string
	//go:embed queries/machine_sight_read.sql
	sqlMachineSightRead string
	//go:embed queries/machine_sight_keep.sql
	sqlMachineSightKeep string
	//go:embed queries/attempts_landed.sql
	sqlAttemptsLanded string
	//go:embed queries/applied_copy.sql
	sqlAppliedCopy string
	//go:embed queries/applied_copy_has.sql
	sqlAppliedCopyHas string
	//go:embed queries/applied_copy_add.sql
	sqlAppliedCopyAdd string
	//go:embed queries/applied_copy_of_change.sql
	sqlAppliedCopyOfChange string
	//go:embed queries/applied_copies_drop.sql
	sqlAppliedCopiesDrop string
	//go:embed queries/changes_not_compared.sql
	sqlChangesNotCompared string
	//go:embed queries/adoption_add.sql
	sqlAdoptionAdd string
)
