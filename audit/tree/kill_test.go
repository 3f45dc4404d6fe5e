package tree

const killPoint = "BRONZEWARD_TEST_SEQUENCER"

func sequencerProcess(point, dsn string) int { return 1 }
