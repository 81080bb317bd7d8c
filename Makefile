# Chores. Each target installs what it needs. One build profile serves all: RocksDB is compiled once.
SHELL := bash
CARGO_FLAGS := --release --locked
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/recant/tools/bin
NAME ?= all
GRAPHS ?= 50000
SEEDS ?= 2000
FIRST ?= 0
ROUNDS ?= 20
MINUTES ?= 60

.PHONY: help needs build demo test lint oracle sim crash soak fuzz bench kafka conformance

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

needs:
	@scripts/install-build-needs

build: needs ## the recant binary, into target/release/recant
	cargo build $(CARGO_FLAGS) -p recant

demo: needs ## build, tell the story, check it
	@echo "building recant; the first time, RocksDB takes a quarter of an hour on two cores" >&2
	@cargo build $(CARGO_FLAGS) -p recant
	@cargo run $(CARGO_FLAGS) --quiet -p recant -- demo

test: lint ## every test, real Kafka included
	@scripts/install-crash-needs
	@scripts/install-kafka-needs >/dev/null
	@scripts/install-kafka-clients >/dev/null
	@scripts/install-s3-server >/dev/null
	cargo build $(CARGO_FLAGS) --workspace --bins
	cargo test $(CARGO_FLAGS) --workspace

lint: needs ## rustfmt, clippy, and the licences and sources of dependencies
	@scripts/install-lint-needs
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	$(TOOLS)/cargo-deny --locked check bans licenses sources

oracle: needs ## the engine against the oracle, GRAPHS=50000 random graphs
	RECANT_GRAPHS=$(GRAPHS) cargo test $(CARGO_FLAGS) -p recant-tests --test engine_oracle -- --nocapture

sim: needs ## everything that can go wrong, SEEDS=2000 runs from seed FIRST=0 on
	cargo run $(CARGO_FLAGS) -p recant-tests --bin sim -- $(SEEDS) $(FIRST)

crash: needs ## kill -9 at every step ROUNDS=20 times, also on Kafka, losses of power, full disks, failing fsyncs; figures into results/
	@scripts/install-crash-needs
	@scripts/install-kafka-needs >/dev/null
	@scripts/install-kafka-clients >/dev/null
	cargo build $(CARGO_FLAGS) -p recant -p recant-tests --bins
	cargo run $(CARGO_FLAGS) --quiet -p recant-tests --bin crash -- all $(ROUNDS)

soak: needs ## everything at once for MINUTES=60, with kills; memory, disk, digests each minute; figures into results/
	cargo build $(CARGO_FLAGS) -p recant -p recant-tests --bin recant --bin soak
	cargo run $(CARGO_FLAGS) --quiet -p recant-tests --bin soak -- $(MINUTES)

conformance: needs ## other people's suites against ours: EventSource, OpenAPI, MCP's own and its official clients; the alert rules and what is in deploy/
	cargo build $(CARGO_FLAGS) -p recant
	cargo build $(CARGO_FLAGS) -p recant-gateway --example conformance
	scripts/conformance-eventsource
	scripts/conformance-openapi
	scripts/conformance-mcp "$${CARGO_TARGET_DIR:-target}/release/examples/conformance"
	scripts/check-alerts
	scripts/check-deploy

fuzz: needs ## libFuzzer on every reader of bytes, or one (NAME=events), for MINUTES=60 in all
	scripts/fuzz $(NAME) $(MINUTES)

bench: needs ## one benchmark (NAME=heart, ingest, opening, spaces, reading, settings, replay, what_if, as_of, retractions, verify, kafka, cascade, gateway, subscribers, memory), or all; figures into results/
	$(if $(filter kafka cascade all,$(NAME)),@scripts/install-kafka-needs >/dev/null)
	$(if $(filter cascade all,$(NAME)),@scripts/install-kafka-clients >/dev/null)
	$(if $(filter kafka cascade what_if retractions verify gateway all,$(NAME)),cargo build $(CARGO_FLAGS) -p recant)
	$(if $(filter memory,$(NAME)),,cargo run $(CARGO_FLAGS) -p recant-tests --bin bench -- $(NAME))
	$(if $(filter memory all,$(NAME)),cargo run $(CARGO_FLAGS) -p recant-tests --bin memory)

kafka: ## a real broker on a free loopback port, for trying things; its address is printed, Ctrl-C stops it
	@scripts/start-kafka
