# Versions. Those of the Go tools are in tools/go.mod, those of the JavaScript
# tools and of Playwright in playwright/package.json.
GOLANGCI_LINT_VERSION := v2.15.0

# What a caller may set.
ADDR     ?= 127.0.0.1:8080
FUZZTIME ?= 20s
SOAK     ?= 10m
# 1: the wasm as Go makes it, with the whole standard library and whole tracebacks.
FULL     ?=
# A directory for the pictures of bench-peers.
PLOTS    ?=

SHELL         := bash
.SHELLFLAGS   := -eu -o pipefail -c
MAKEFLAGS     += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

GOLANGCI_LINT := bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
WEBBUILD      := go -C tools run ./webbuild
# What goes into the wasm; the server does not compile for it.
WASM_PACKAGES := ./wire ./reconnect ./jsbridge ./wasm ./wasm/hub
# Go's own runner for js/wasm under Node, with little in the environment: a program
# has room for 8 KB of it.
NODE_EXEC = env -i HOME=$$HOME PATH=$$PATH $$(go env GOROOT)/lib/wasm/go_js_wasm_exec

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- Build: needs Go and nothing else.

.PHONY: build
build: web build-server ## build web/dist (wasm, shim, demo page) and bin/longwire

.PHONY: web wasm
web: ## build web/dist; FULL=1: with the wasm as Go makes it
	$(WEBBUILD) $(if $(FULL),-full)
wasm: web

.PHONY: build-server
build-server: ## build bin/longwire around the web/dist that is there
	go build -trimpath -o bin/longwire ./cmd/longwire

.PHONY: package
package: need-node web ## build the npm package, in bin/
	rm -rf bin/package bin/longwire-*.tgz
	mkdir -p bin/package
	cp -r LICENSE web/README.md web/package.json web/dist bin/package
	# The wasm holds parts of these, whose licences want to be told.
	for dir in $$(go env GOROOT) $$(GOOS=js GOARCH=wasm go list -deps -f \
			'{{with .Module}}{{if not .Main}}{{.Dir}}{{end}}{{end}}' ./wasm | sort -u); do \
		echo "--- $${dir##*/}"; cat "$$dir"/LICENSE*; \
	done > bin/package/LICENSES
	cd bin/package && npm pack --silent --pack-destination ..

.PHONY: demo
demo: build ## build all, then serve the demo page on ADDR (127.0.0.1:8080)
	@echo "Ctrl-C ends the demo, which is at"
	@exec bin/longwire serve -addr $(ADDR) -faults

.PHONY: demo-nodes
demo-nodes: build ## the same on three nodes that share a Redis, behind haproxy (Debian: redis-server, haproxy)
	@exec tools/demo-nodes.sh $(ADDR)

.PHONY: size
size: ## print what is in the wasm, and all sizes beside the budgets; fail above them
	$(WEBBUILD) -check $(if $(FULL),-full)

.PHONY: screenshots
screenshots: browsers node_modules web build-server ## make the pictures of the demo page in docs/images
	cd playwright && node screenshots.js

# --- Test: installs what it lacks.

.PHONY: test
test: lint test-go test-wasm size test-e2e ## everything: lint, sizes and all tests below

.PHONY: test-go
test-go: redis ## the Go tests, natively, with the race detector
	go test -race $$(go list ./... | grep -v -e /jsbridge$$ -e /fleet$$)
	# Processes, judged by the clock: they are to have the machine to themselves.
	go test ./internal/fleet
	# With -race these play fewer schedules: 500 instead of 2,000, 1,000 instead of 20,000.
	go test -run '^TestAnySchedule' ./internal/integration
	go test -run '^TestAnySchedule|^TestEveryRule' ./wasm/hub
	# Nothing is measured here, but benchmarks that nobody runs would not run any more.
	go test -run '^$$' -bench . -benchtime 100ms $$(go list ./... | grep -v -e /jsbridge$$ -e /fleet$$)
	go -C tools test ./...
	go -C bench/server test ./...

.PHONY: test-wasm
test-wasm: browsers need-node bin/wasmbrowsertest ## the Go tests of the browser side, in Chromium or Node
	GOOS=js GOARCH=wasm go test -exec "$(NODE_EXEC)" -timeout 5m ./wire ./reconnect
	PATH="$(CURDIR)/bin:$$PATH" go test ./jsbridge

.PHONY: test-e2e
test-e2e: browsers node_modules package build-server bench/peers/node_modules/.package-lock.json ## the browser tests, in Chromium and Firefox
	cd playwright && npx --no-install playwright test
	go -C bench/peers test ./...

.PHONY: lint
lint: lint-go lint-js ## golangci-lint for each platform, biome and tsc

.PHONY: lint-go
lint-go: $(GOLANGCI_LINT)
	$(GOLANGCI_LINT) run ./...
	GOOS=js GOARCH=wasm $(GOLANGCI_LINT) run $(WASM_PACKAGES)
	cd tools && ../$(GOLANGCI_LINT) run --config ../.golangci.yml ./...
	cd bench/server && GOOS=linux ../../$(GOLANGCI_LINT) run --config ../../.golangci.yml ./...
	cd bench/redis && ../../$(GOLANGCI_LINT) run --config ../../.golangci.yml ./...
	cd bench/peers && GOOS=linux ../../$(GOLANGCI_LINT) run --config ../../.golangci.yml ./...
	go mod tidy -diff
	go -C tools mod tidy -diff
	go -C bench/server mod tidy -diff
	go -C bench/redis mod tidy -diff
	go -C bench/peers mod tidy -diff

.PHONY: lint-js
lint-js: node_modules
	# What is in the tree so that a build needs no npm is what npm has.
	cmp web/uplot/uPlot.esm.js playwright/node_modules/uplot/dist/uPlot.esm.js
	cmp web/uplot/uPlot.esm.d.ts playwright/node_modules/uplot/dist/uPlot.d.ts
	cmp web/uplot/uPlot.min.css playwright/node_modules/uplot/dist/uPlot.min.css
	cmp web/uplot/LICENSE playwright/node_modules/uplot/LICENSE
	playwright/node_modules/.bin/biome check --error-on-warnings .
	playwright/node_modules/.bin/tsc --project .
	playwright/node_modules/.bin/tsc --project playwright

.PHONY: fmt
fmt: $(GOLANGCI_LINT) node_modules ## format Go and JavaScript
	$(GOLANGCI_LINT) fmt ./...
	cd tools && ../$(GOLANGCI_LINT) fmt --config ../.golangci.yml ./...
	cd bench/server && ../../$(GOLANGCI_LINT) fmt --config ../../.golangci.yml ./...
	cd bench/redis && ../../$(GOLANGCI_LINT) fmt --config ../../.golangci.yml ./...
	cd bench/peers && ../../$(GOLANGCI_LINT) fmt --config ../../.golangci.yml ./...
	playwright/node_modules/.bin/biome check --write .

.PHONY: fuzz
fuzz: ## fuzz each target for FUZZTIME (20s)
	@for package in $$(go list ./... | grep -v /jsbridge$$); do \
		targets=$$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); \
		for target in $$targets; do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: soak
soak: redis ## clients and server in any schedule, simulated and then as processes, for SOAK (10m) each; first a minute at full speed
	go test -race -timeout 0 -run '^TestPublishWhileClientsComeAndGo$$' -v ./server -soak 1m
	go test -race -timeout 0 -run '^TestAnyScheduleOfClientsAndServerIsLossless$$' ./internal/integration -soak $(SOAK)
	go test -timeout 0 -run '^TestAnyScheduleOfNodesAndRedisIsLossless$$' ./internal/fleet -soak $(SOAK) -clients 300

.PHONY: bench
bench: browsers bin/wasmbrowsertest web ## the benchmarks, in Go and from server to page
	go test -run '^$$' -bench . -benchmem $$(go list ./... | grep -v /jsbridge$$)
	PATH="$(CURDIR)/bin:$$PATH" go test -run '^$$' -bench . -v ./jsbridge
	go run ./bench -chromium bin/headless-shell $(addprefix -firefox ,$(wildcard $(or $(FIREFOX),/usr/bin/firefox-esr)))

.PHONY: bench-tabs
bench-tabs: browsers web ## tabs that share a connection beside plain WebSockets, in Chromium, in 3 minutes
	go run ./bench -chromium bin/headless-shell -parts cost,tabs -rounds 3 -batches 1,64 -warm-up 500ms -window 1s

.PHONY: bench-server
bench-server: ## the server beside the centrifuge library, and how its costs grow, on Linux, in 8 minutes
	go -C bench/server run .

.PHONY: bench-peers
bench-peers: browsers web bench/peers/node_modules/.package-lock.json ## a page with other libraries instead, in Chromium on Linux, in 15 minutes
	go -C bench/peers run . -chromium $(CURDIR)/bin/headless-shell $(if $(PLOTS),-plots $(abspath $(PLOTS)))

bench/peers/node_modules/.package-lock.json: bench/peers/package-lock.json
	cd bench/peers && npm ci --no-progress --ignore-scripts
	@touch $@

.PHONY: bench-redis
bench-redis: ## the Redis client that the store uses beside another, in a minute
	go -C bench/redis test -run '^$$' -bench . -count 3 .

# --- Tools.

.PHONY: tools
tools: $(GOLANGCI_LINT) bin/wasmbrowsertest browsers ## install linters, test runners and browsers

# From source, as its binaries cannot be pinned through the module proxy; takes minutes.
$(GOLANGCI_LINT):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv bin/golangci-lint $@

bin/wasmbrowsertest: tools/go.mod
	GOBIN=$(CURDIR)/bin go -C tools install github.com/agnivade/wasmbrowsertest

.PHONY: need-node
need-node:
	@command -v npm >/dev/null && command -v node >/dev/null || \
		{ echo "node and npm are missing: install Node.js 20.19 or later for the JavaScript linters and the browser tests" >&2; exit 1; }

.PHONY: node_modules
node_modules: need-node playwright/node_modules/.package-lock.json

playwright/node_modules/.package-lock.json: playwright/package-lock.json
	cd playwright && npm ci --no-progress
	@touch $@

.PHONY: redis
redis:
	@tools/redis.sh

.PHONY: browsers
browsers: node_modules
	@tools/browsers.sh

.PHONY: clean
clean: ## remove what was built, but not the tools
	rm -rf bin/longwire bin/package bin/*.tgz playwright/test-results playwright/playwright-report
	find web/dist -type f ! -name .gitkeep -delete
