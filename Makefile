# Every target is a script of the same name in scripts/.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help up down build agent image engine test test-gvisor fuzz-api torture bench deny clean

help: ## Print this
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

up: ## Install what is missing, build, start sandboxd, and say how to try it
	@scripts/up

down: ## Stop sandboxd; its sandboxes stay for the next start
	@scripts/down

build: ## Build the agent and the daemon in release
	@scripts/build

agent: ## Build the agent alone
	@scripts/build agent

image: ## Build the sandbox image, whether or not there is one
	@scripts/image

engine: ## Install and start a Docker engine where none answers
	@scripts/engine

test: ## Run every check, on the real engine
	@scripts/test

test-gvisor: ## Run the stories under gVisor, where runsc is installed
	@scripts/test-gvisor

fuzz-api: ## Fuzz the API by its OpenAPI document, on a daemon of its own
	@scripts/fuzz-api

torture: ## Kill the daemon hundreds of times and look for what is lost or left behind
	@scripts/torture

bench: ## Measure beside docker exec, a bare fork and the engine alone
	@scripts/bench

deny: ## Check licenses, sources and known faults of dependencies (needs cargo-deny)
	@scripts/deny

clean: ## Stop sandboxd and remove what was built; images, sandboxes and state stay
	@scripts/clean
