#!/bin/sh
# Generates the protobuf and gRPC modules next to their .proto texts, or below the folder given as first argument.
# Versions of the generator are those of pyproject.toml (grpcio-tools), so that the output is repeatable.
set -eu
cd "$(dirname "$0")/.."
out="${1:-.}"
python="${PYTHON:-.venv/bin/python}"
mkdir -p "$out"
for text in $(find bookie -name '*.proto' | sort); do
  case "$text" in
    bookie/rpc/*) grpc="--grpc_python_out=$out" ;;
    *) grpc="" ;;
  esac
  # shellcheck disable=SC2086
  "$python" -m grpc_tools.protoc -I . --python_out="$out" --pyi_out="$out" $grpc "$text"
done
