FROM python:3.13-slim AS build
COPY . /source
RUN python -m venv /opt/kohort \
    && /opt/kohort/bin/pip install --no-cache-dir --no-compile /source \
    && /opt/kohort/bin/python -m compileall -q /opt/kohort/lib

# With Java and PySpark, for `kohort pipeline stream`; Debian 12 has Spark's Java.
FROM python:3.13-slim-bookworm AS pipeline
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home kohort \
    && install -d -o kohort -g kohort /lake
COPY . /source
RUN python -m venv /opt/kohort \
    && /opt/kohort/bin/pip install --no-cache-dir '/source[spark]' \
    && rm -rf /source
ENV PATH="/opt/kohort/bin:$PATH" PYTHONUNBUFFERED=1 KOHORT_LAKE=/lake
USER kohort
# The Kafka connector is fetched now, so that no start needs a network.
RUN python -c "from kohort.pipeline.session import session, stop; \
    stop(session('local[1]', connector=True))"
VOLUME /lake
WORKDIR /lake
STOPSIGNAL SIGTERM
ENTRYPOINT ["kohort", "pipeline"]

FROM python:3.13-slim
RUN useradd --system --no-create-home kohort \
    && install -d -o kohort -g kohort /var/lib/kohort
COPY --from=build /opt/kohort /opt/kohort
# For the commands in the container: `docker exec NAME kohort why billing`. The token is no
# secret; give another one (-e KOHORT_HTTP_TOKEN=...) where others reach the HTTP port.
ENV PATH="/opt/kohort/bin:$PATH" PYTHONUNBUFFERED=1 \
    KOHORT_BOOTSTRAP_SERVERS=127.0.0.1:9092 \
    KOHORT_HTTP=http://127.0.0.1:9080 KOHORT_HTTP_TOKEN=kohort
USER kohort
VOLUME /var/lib/kohort
# Kafka for clients of the host and for clients in containers, and HTTP.
EXPOSE 9092 29092 9080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s --retries=3 \
    CMD ["kohort", "ping"]
ENTRYPOINT ["kohort"]
CMD ["serve", "--host", "0.0.0.0", "--advertise", "127.0.0.1:9092", \
     "--advertise", "29092=kohort:29092", "--http", "0.0.0.0:9080", \
     "--data-dir", "/var/lib/kohort"]
