# An image that indexes lakes and serves an index as an unprivileged user: docs/SERVE.md says how to run it.

FROM python:3.12 AS build
# The full image has a C compiler: where wordllama has no wheel (arm64), pip builds it.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/gentus
WORKDIR /source
COPY requirements-serve.lock ./
RUN /opt/gentus/bin/pip install --require-hashes --no-deps -r requirements-serve.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/gentus/bin/pip install --no-deps --no-build-isolation . && /opt/gentus/bin/pip check

FROM python:3.12-slim
COPY --from=build /opt/gentus /opt/gentus
RUN useradd --uid 10001 --create-home gentus && install -d -o gentus -g gentus /data
ENV PATH=/opt/gentus/bin:$PATH PYTHONUNBUFFERED=1
USER gentus
WORKDIR /data
VOLUME /data
EXPOSE 8420
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8420/readyz', timeout=4)"]
ENTRYPOINT ["gentus"]
CMD ["serve", "/data/lake.index", "--host", "0.0.0.0"]
