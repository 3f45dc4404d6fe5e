package config

import (
	"testing"

	"bronzeward/cmd/bronzeward/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }
