package law

//go:generate sh -c "go run bronzeward/cmd/bronzeward policy docs >rules.new && mv rules.new ../../../docs/rules.md"
