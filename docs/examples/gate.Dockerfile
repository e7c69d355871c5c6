# What `dpicl submit --run-code` runs in: docker build -t dpicl-gate -f docs/examples/gate.Dockerfile .
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
WORKDIR /dpicl
COPY . .
RUN make setup VENV=/opt/dpicl PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
ENV HOME=/tmp
ENTRYPOINT ["/opt/dpicl/bin/dpicl"]
