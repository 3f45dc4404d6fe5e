package config

import "time"

// BookConfig is about the tree over the book and its signed checkpoints.
type BookConfig struct {
	// CheckpointEvery is the least time between two checkpoints; default 5s, from 1s to 1h.
	CheckpointEvery time.Duration `yaml:"checkpoint_every"`
	// CheckpointFolder is a directory of the auditors, where each checkpoint is written too; default none.
	CheckpointFolder string `yaml:"checkpoint_folder"`
}

const (
	leastCheckpointEvery = time.Second
	mostCheckpointEvery  = time.Hour
)

// bookProblems are what is wrong with these keys. Whether the folder can be written to is not asked
// here: it may be away for a while, and the book goes on.
func (c *Config) bookProblems(bad func(key, format string, args ...any)) {
	if every := c.Book.CheckpointEvery; every < leastCheckpointEvery || every > mostCheckpointEvery {
		bad("book.checkpoint_every", "%s is not between %s and %s", every, leastCheckpointEvery, mostCheckpointEvery)
	}
}
