# Every target runs the script of the same name in scripts/.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help up up-native down build agent web image engine test test-gvisor fuzz-api torture soak bench deny clean

help: ## Print this list
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

up: ## Start the chat and sandboxd in containers, and print the chat's address
	@scripts/up

up-native: ## Start the same two programs without containers, and install what is missing
	@scripts/up-native

down: ## Stop what make up or make up-native started; chats and sandboxes are kept
	@scripts/down

build: ## Build the agent and the daemon in release mode
	@scripts/build

agent: ## Build only the agent
	@scripts/build agent

web: ## Build the chat's page
	@scripts/web

image: ## Build the sandbox image, even if it exists
	@scripts/image

engine: ## Install and start a Docker engine if none responds
	@scripts/engine

test: ## Run all checks, on the real engine
	@scripts/test

test-gvisor: ## Run the stories under gVisor
	@scripts/test-gvisor

fuzz-api: ## Fuzz the API by its OpenAPI document, on a separate daemon
	@scripts/fuzz-api

torture: ## Kill the daemon hundreds of times and check for lost data and leftovers
	@scripts/torture

soak: ## Run a mixed load on a release daemon for SOAK_SECONDS; fail if its memory, descriptors or disk grow
	@scripts/soak

bench: ## Compare the speed with docker exec, a bare fork and the engine alone; CHECK=1 fails on worse ratios, KEEP=1 keeps them
	@scripts/bench

deny: ## Check licenses, sources and known vulnerabilities of dependencies
	@scripts/deny

clean: ## Stop sandboxd and remove the build output; images, sandboxes and state are kept
	@scripts/clean
