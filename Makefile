# Bronzeward. `make` alone lists the targets. A bare machine needs Go, a C compiler, npm and pip; .ci/run brings the latter
# three on Debian. What else is needed is fetched, pinned, into ~/.cache/bronzeward (or BRONZEWARD_CACHE) by `make setup`.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A checkout that belongs to somebody else must build too.
export GOFLAGS ?= -buildvcs=false
GIT  := git -c safe.directory='*'
TOOL := go tool -modfile=tools.mod
REGAL := go tool -modfile=tools.regal.mod regal
# Without cgo sqlc takes its SQL parser as WebAssembly, which builds in seconds instead of minutes.
SQLC := CGO_ENABLED=0 $(TOOL) sqlc

# Times after which something hangs, with room for two slow cores; nothing is judged by them.
TEST_TIMEOUT ?= 30m
RACE_TIMEOUT ?= 30m

# Packages whose tests have nothing for the race detector: they drive the built binary, talosctl and PostgreSQL as processes,
# or search texts and pages, one after the other.
NO_RACES := (/fixtures/(auditing|e2e|cases|fullbook|keys|leakscan|matrix|postgres|runbook|soak|talosctlbin|tenminutes)|/cmd/bronzeward|/policytest)$$
# Tests of other packages that do the same.
NO_RACE_TESTS := TestAGatewayKilled|TestAStaleOwnerNeither|TestAnApplyThatIsUnderWay|TestAnOlderOpenBao|TestNoLawIsMadeLiveOnARestored

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9\/-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## fetch PostgreSQL and OpenBao and build talosctl, where they are missing (about 4 minutes, once)
	@go run ./fixtures/setup

.PHONY: build
build: ## build bronzeward and the demo into bin/
	go build -o bin/ ./cmd/...

.PHONY: demo
demo: setup build ## start the world in a box (DEMO_DIR keeps its files); Ctrl-C ends it
	@exec bin/bronzeward-demo

.PHONY: demo/script
demo/script: setup build ## run the demo's commands, check what they print, exit 0 or 1
	@exec bin/bronzeward-demo script

.PHONY: scenario
scenario: setup build ## run one scenario, as in: make scenario S=S0
	@: $${S:?name one, as in: make scenario S=S0}; exec bin/bronzeward-demo scenario "$$S"

.PHONY: scenarios
scenarios: setup build ## run every scenario
	@exec bin/bronzeward-demo scenario all

.PHONY: leakscan
leakscan: setup build ## run a story full of secrets, and search everything it leaves for them
	@exec bin/bronzeward-demo leakscan

.PHONY: test
test: setup ## run every test: Go, Rego, end to end with the real talosctl
	go test -timeout $(TEST_TIMEOUT) ./...

.PHONY: test/race
test/race: setup ## run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout $(RACE_TIMEOUT) -skip '$(NO_RACE_TESTS)' $$(go list ./... | grep -v -E '$(NO_RACES)')

.PHONY: soak
soak: setup ## run SEEDS (default 1000) seeds of faults drawn by chance, and put the result into docs/benchmarks.md
	go test ./fixtures/soak -count=1 -v -run 'TestSoak$$' -timeout 6h -args -seeds $(SEEDS) -write ../../docs/benchmarks.md
SEEDS ?= 1000

.PHONY: e2e
e2e: setup ## run only the end-to-end tests, afresh
	go test -count=1 -timeout $(TEST_TIMEOUT) ./fixtures/e2e ./fixtures/cases ./fixtures/keys ./fixtures/runbook ./fixtures/auditing ./fixtures/tenminutes ./fixtures/matrix

.PHONY: bench
bench: setup build ## run the benchmarks and the load program
	go test -run '^$$' -bench . -benchmem -timeout 60m ./...
	bin/bronzeward-demo bench -write docs/benchmarks.md
	bin/bronzeward-demo bench -only swap -write docs/benchmarks-law.md

.PHONY: bench/law
bench/law: ## hold the engine beside opa-envoy-plugin's evaluation, with up to 1000 rules more
	cd bench/opaenvoy && go test -run '^$$' -bench Beside -benchtime 1x -timeout 30m

.PHONY: bench/book
bench/book: setup build ## measure a book of ROWS entries (default 10000000: 35 GB of disk, an hour)
	bin/bronzeward-demo bench-book -rows $(ROWS) -write docs/benchmarks.md
ROWS ?= 10000000

.PHONY: generate
generate: ## write again what is generated: SQL code, schemas, reference pages
	@$(GIT) ls-files -co --exclude-standard -- '*sqlc.yaml' | while read -r file; do echo "sqlc generate -f $$file"; $(SQLC) generate -f "$$file"; done
	go generate ./...

.PHONY: fmt
fmt: ## format the Go files
	$(TOOL) gofumpt -w .

.PHONY: verify
verify: verify/modules verify/format verify/vet verify/staticcheck verify/policy verify/generated verify/size ## check all that needs no test

.PHONY: verify/modules
verify/modules:
	@go mod tidy -diff || { echo "go.mod is not tidy: go mod tidy" >&2; exit 1; }
	@go mod verify

.PHONY: verify/format
verify/format:
	@unformatted="$$($(TOOL) gofumpt -l .)"; [[ -z "$$unformatted" ]] || { echo "not formatted (make fmt):" >&2; echo "$$unformatted" >&2; exit 1; }

.PHONY: verify/vet
verify/vet:
	go vet ./...

.PHONY: verify/staticcheck
verify/staticcheck:
	$(TOOL) staticcheck ./...

.PHONY: verify/policy
verify/policy:
	go run ./cmd/bronzeward policy check policy/bundle
	$(REGAL) lint --config-file policy/bundle/.regal/config.yaml policy/bundle

.PHONY: policy/coverage
policy/coverage: ## print which share of the shipped Rego its tests reach; fails below 95 %
	go run ./cmd/bronzeward policy test --coverage-min 95 policy/bundle

.PHONY: verify/generated
verify/generated:
	@.ci/generated-is-current

.PHONY: verify/size
verify/size:
	@.ci/no-long-files

.PHONY: ci
ci: verify test test/race scenarios ## what continuous integration runs

.PHONY: clean
clean: ## remove what was built and the demo's files; the cache stays
	rm -rf bin .demo coverage.out
