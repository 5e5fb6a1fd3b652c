FROM python:3.13-slim AS build
COPY . /source
RUN python -m venv /opt/kohort \
    && /opt/kohort/bin/pip install --no-cache-dir --no-compile /source \
    && /opt/kohort/bin/python -m compileall -q /opt/kohort/lib

FROM python:3.13-slim
RUN useradd --system --no-create-home kohort \
    && install -d -o kohort -g kohort /var/lib/kohort
COPY --from=build /opt/kohort /opt/kohort
ENV PATH="/opt/kohort/bin:$PATH" PYTHONUNBUFFERED=1
USER kohort
VOLUME /var/lib/kohort
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s --retries=3 \
    CMD ["kohort", "ping", "--bootstrap", "127.0.0.1:9092"]
ENTRYPOINT ["kohort"]
CMD ["serve", "--host", "0.0.0.0", "--advertise", "127.0.0.1:9092", \
     "--data-dir", "/var/lib/kohort"]
