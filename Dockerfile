# Two images: `--target bookie` for the data plane and the operator, entry points `bookie` and
# `bookie-operator`; `--target spark` for the data pipeline, which is some 600 MB more.
# They run as any user without privileges (Spark: as 10001, since Java wants a name for its user),
# need no writable root file system, and every process in them handles SIGTERM itself, as process 1 must.

FROM debian:bookworm-slim AS python
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3 tzdata \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# What pyproject.toml asks for, without the rest of it, so that only a changed dependency counts.
FROM python AS requirements
COPY pyproject.toml .
RUN mkdir /requirements && python3 -c "import tomllib; \
asked = tomllib.load(open('pyproject.toml', 'rb')); \
project = asked['project']; extras = project['optional-dependencies']; \
runtime = project['dependencies'] + extras['bookie'] + extras['operator']; \
open('/requirements/runtime.txt', 'w').write('\n'.join(runtime)); \
open('/requirements/spark.txt', 'w').write('\n'.join(project['dependencies'] + extras['spark'])); \
open('/requirements/native.txt', 'w').write('\n'.join(extras['native'])); \
open('/requirements/build.txt', 'w').write('\n'.join(asked['build-system']['requires']))"

# Everything we depend on, as one layer.
FROM python AS dependencies
ARG PIP_INDEX_URL
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3-venv ca-certificates \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY --from=requirements /requirements /requirements
RUN python3 -m venv --without-pip /opt/bookie && python3 -m venv /opt/build \
    && /opt/build/bin/pip install --quiet -r /requirements/build.txt \
    && /opt/build/bin/pip --python /opt/bookie/bin/python install --quiet -r /requirements/runtime.txt

# The hot modules as C (docs/decisions/0007-native.md); nothing of the compiler reaches an image.
FROM dependencies AS native
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-dev \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && /opt/build/bin/pip install --quiet -r /requirements/native.txt
WORKDIR /build
COPY tools/native.py tools/native.py
COPY bookie bookie
RUN /opt/build/bin/python tools/native.py --alone /native

# The project itself, in a place of its own, so that a change of a source is a layer of its own.
FROM dependencies AS project
WORKDIR /build
COPY . .
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/build/bin/pip --python /opt/bookie/bin/python install --quiet --no-deps --no-index \
        --prefix /opt/project /wheels/*.whl

FROM python AS bookie
COPY --from=dependencies /opt/bookie /opt/bookie
COPY --from=project /opt/project /opt/bookie
COPY --from=native /native /opt/bookie/lib/python3.11/site-packages
ENV PATH=/opt/bookie/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /
CMD ["bookie", "--help"]

# ---- Spark ----
# What is large and seldom changes comes first, and nothing of it stands on our sources.

FROM python AS java
# The package wants a folder for its manual page, which a slim system has not.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && echo "bookie:x:10001:10001::/tmp:/usr/sbin/nologin" >> /etc/passwd

# Spark without what a pipeline over ledgers never runs: Hive, YARN, machine learning, its shell and compiler, the state
# store on RocksDB, other systems' libraries.
FROM dependencies AS spark-dependencies
RUN python3 -m venv --without-pip /opt/spark \
    && /opt/build/bin/pip --python /opt/spark/bin/python install --quiet -r /requirements/spark.txt \
    && cd /opt/spark/lib/python3.11/site-packages \
    && rm -rf pyspark/examples pyspark/data pyarrow/tests pyarrow/include pyarrow/*flight* \
    && cd pyspark/jars \
    && rm -f rocksdbjni-* breeze* spire* algebra_* cats-* spark-mllib* spark-graphx* hive-* spark-hive* datanucleus-* \
        derby* spark-yarn* hadoop-yarn* spark-repl* scala-compiler-* jline-* lapack-* blas-* arpack* JTransforms-* \
        *-osx-* *-windows-* *-kqueue* \
    && /opt/spark/bin/python -c "import pyarrow.parquet, pyspark.sql"

FROM java AS spark
COPY --from=spark-dependencies /opt/spark /opt/spark
COPY --from=project /opt/project/lib /opt/spark/lib
ENV PATH=/opt/spark/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
# Spark on Kubernetes starts its own containers with the arguments `driver` and `executor`; all else is a command.
ENTRYPOINT ["python3", "-m", "pyspark_bookkeeper.container"]
CMD ["python3", "-m", "pyspark_bookkeeper", "--help"]
