# Every target is a script of the same name in scripts/.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help up up-native down build agent web image engine test test-gvisor fuzz-api torture soak bench deny clean

help: ## Print this
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

up: ## Bring up chat and sandboxd in containers, and say where to open the chat
	@scripts/up

up-native: ## The same two programs without compose: install what is missing, build, start
	@scripts/up-native

down: ## Stop what make up or make up-native started; chats and sandboxes stay
	@scripts/down

build: ## Build the agent and the daemon in release
	@scripts/build

agent: ## Build the agent alone
	@scripts/build agent

web: ## Build the chat's page
	@scripts/web

image: ## Build the sandbox image, whether or not there is one
	@scripts/image

engine: ## Install and start a Docker engine where none answers
	@scripts/engine

test: ## Run every check, on the real engine
	@scripts/test

test-gvisor: ## Run the stories under gVisor
	@scripts/test-gvisor

fuzz-api: ## Fuzz the API by its OpenAPI document, on a daemon of its own
	@scripts/fuzz-api

torture: ## Kill the daemon hundreds of times and look for what is lost or left behind
	@scripts/torture

soak: ## Put mixed load on a release daemon for SOAK_SECONDS and fail if its memory, descriptors or disk grow
	@scripts/soak

bench: ## Measure beside docker exec, a bare fork and the engine alone
	@scripts/bench

deny: ## Check licenses, sources and known faults of dependencies
	@scripts/deny

clean: ## Stop sandboxd and remove what was built; images, sandboxes and state stay
	@scripts/clean
