package control

import _ "embed"

// The statements of recovery.
var (
	//go:embed queries/recovery.sql
	sqlRecovery string
	//go:embed queries/recovery_mark.sql
	sqlRecoveryMark string
	//go:embed queries/recovery_unmark.sql
	sqlRecoveryUnmark string
	//go:embed queries/anchor_remember.sql
	sqlAnchorRemember string
	//go:embed queries/anchor_version.sql
	sqlAnchorVersion string
	//go:embed queries/machines_lock_all.sql
	sqlMachinesLockAll string
	//go:embed queries/changes_lock_all_live.sql
	sqlChangesLockAllLive string
	//go:embed queries/changes_all_live.sql
	sqlChangesAllLive string
	//go:embed queries/approvals_unspent.sql
	sqlApprovalsUnspent string
	//go:embed queries/attempts_open.sql
	sqlAttemptsOpen string
	//go:embed queries/attempt_abandon.sql
	sqlAttemptAbandon string
	//go:embed queries/recovery_enter.sql
	sqlRecoveryEnter string
	//go:embed queries/epoch_move.sql
	sqlEpochMove string
	//go:embed queries/recovery_latest.sql
	sqlRecoveryLatest string
	//go:embed queries/recovery_machines.sql
	sqlRecoveryMachines string
	//go:embed queries/recovery_release.sql
	sqlRecoveryRelease string
	//go:embed queries/recovery_exit.sql
	sqlRecoveryExit string
	//go:embed queries/recovery_attempts.sql
	sqlRecoveryAttempts string
	//go:embed queries/recovery_revoked.sql
	sqlRecoveryRevoked string
)
