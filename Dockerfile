# Redis or Valkey with flock in it, and the race experiments; docs/DOCKER.md tells how to run them. Needs BuildKit.
#   docker build -t flock:redis .
#   docker build -t flock:valkey --build-arg SERVER=valkey .
#   docker build -t flock:races --target races .
ARG SERVER=redis
ARG REDIS_IMAGE=redis:8.6
ARG VALKEY_IMAGE=valkey/valkey:9.1
ARG RACES_IMAGE=debian:bookworm-slim
# What it builds needs its own C library or a newer one, so this is Debian 12's. Alpine's images have another library.
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${RUST_IMAGE} AS toolchain
# Where packages and crates come from may be given as build secrets, for networks that have mirrors.
RUN --mount=type=secret,id=apt,target=/etc/apt/sources.list.d/debian.sources \
    apt-get -qq update && \
    apt-get -qq install -y --no-install-recommends libclang-dev >/dev/null && \
    rm -rf /var/lib/apt/lists/*

FROM toolchain AS module
WORKDIR /flock
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY src src
# Files are copied with their times, by which cargo may take what an earlier build left in the cache for up to date: so touch.
RUN --mount=type=secret,id=cargo,target=/usr/local/cargo/config.toml \
    --mount=type=cache,id=flock-crates,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=flock-target,target=/flock/target,sharing=locked \
    touch src/lib.rs && \
    cargo build --release --locked && \
    cp target/release/libflock.so /usr/local/lib/

FROM module AS wallet
COPY examples examples
RUN --mount=type=secret,id=cargo,target=/usr/local/cargo/config.toml \
    --mount=type=cache,id=flock-crates,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=flock-target,target=/flock/target,sharing=locked \
    touch src/lib.rs examples/wallet/main.rs && \
    cargo build --release --locked --example wallet && \
    cp target/release/examples/wallet /usr/local/bin/

FROM ${RACES_IMAGE} AS races
COPY --from=wallet /usr/local/bin/wallet /usr/local/bin/
USER nobody
ENTRYPOINT ["wallet"]

FROM ${REDIS_IMAGE} AS redis
FROM ${VALKEY_IMAGE} AS valkey

FROM ${SERVER} AS flock
ARG SERVER
LABEL org.opencontainers.image.title="flock on ${SERVER}" \
      org.opencontainers.image.description="Fenced distributed locks inside Redis and Valkey" \
      org.opencontainers.image.licenses="MIT"
COPY --from=module /usr/local/lib/libflock.so /usr/local/lib/
COPY --chmod=644 LICENSE /usr/local/share/doc/flock/
COPY --chmod=644 redis.conf /etc/flock/
# flock-server and flock-cli: the same names on both servers. As in the official images, what the server writes is its
# alone; unlike there, the modules that come with Redis stay unloaded.
RUN sed -i -e 's|^loadmodule .*|loadmodule /usr/local/lib/libflock.so|' \
        -e 's|^bind .*|# In the image: every network of the container.\nbind * -::*|' /etc/flock/redis.conf && \
    printf '%s\n' '' '# Where the volume is.' 'dir /data' \
        '' '# What is mounted here is read last, so it wins.' 'include /etc/flock/conf.d/*.conf' >>/etc/flock/redis.conf && \
    printf '#!/bin/sh\numask 077\nexec %s-server /etc/flock/redis.conf "$@"\n' "$SERVER" >/usr/local/bin/flock-server && \
    chmod 755 /usr/local/bin/flock-server && \
    ln -s "$(command -v "$SERVER-cli")" /usr/local/bin/flock-cli && \
    mkdir -p /etc/flock/conf.d /data && \
    chown "$SERVER:$SERVER" /data
WORKDIR /data
VOLUME /data
EXPOSE 6379
USER ${SERVER}
# While it loads its files it answers LOADING. Where it wants a password it is well: without flock it would not run.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD flock-cli FLOCK.HELP 2>&1 | grep -qE 'FLOCK.ACQUIRE|^(NOAUTH|NOPERM)'
ENTRYPOINT ["flock-server"]
