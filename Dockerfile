# Basalt in an image: compiled from source, then the one binary on Debian, as a user without rights, with nothing
# to write to but its store.
#
#   docker build -t basalt .                                 the profile `dist`: link-time optimised, for use
#   docker build -t basalt --build-arg PROFILE=release .     what docker-compose.yml builds: a first cluster is up sooner
#   docker build -t basalt --build-arg FEATURES= .           without SQL over all tables, whose planner takes most of the time

FROM rust:1-bookworm AS build
ARG PROFILE=dist
ARG FEATURES=sql,otlp
WORKDIR /src

# First what others have written, which changes seldom: our crates with nothing in them.
COPY Cargo.toml Cargo.lock ./
# How the allocator is built.
COPY .cargo .cargo
COPY proto/Cargo.toml proto/
COPY core/kernels/Cargo.toml core/kernels/
COPY core/sip/Cargo.toml core/sip/
COPY core/Cargo.toml core/
COPY storage/nested/Cargo.toml storage/nested/
COPY storage/Cargo.toml storage/
COPY sql/Cargo.toml sql/
COPY client/Cargo.toml client/
COPY server/Cargo.toml server/
COPY benches/Cargo.toml benches/
RUN for crate in proto core/kernels core/sip core storage/nested storage sql client server benches; do \
        mkdir -p "$crate/src" && touch "$crate/src/lib.rs"; \
    done \
    && for program in server/src/main.rs proto/build.rs; do echo 'fn main() {}' >"$program"; done \
    && mkdir benches/benches \
    && for bench in $(grep -A1 '^\[\[bench' benches/Cargo.toml | sed -n 's/^name = "\(.*\)"/\1/p'); do \
        touch "benches/benches/$bench.rs"; \
    done \
    && cargo build --locked --profile "$PROFILE" --package basalt-server --features "$FEATURES"

# Then ours. Cargo goes by the files' times, and those of the empty ones are newer.
COPY . .
RUN find . -path ./target -prune -o -name '*.rs' -exec touch {} + \
    && cargo build --locked --profile "$PROFILE" --package basalt-server --features "$FEATURES" \
    && strip -o /basalt "target/$PROFILE/basalt" \
    && python3 scripts/supply.py sbom --features "$FEATURES" --output /basalt.cdx.json

FROM debian:bookworm-slim
# The roots that a store behind https is checked by.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# A named volume that is mounted there takes over the folder's owner.
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin basalt \
    && install --directory --owner=basalt --group=basalt /data /secrets
COPY --from=build /basalt /usr/local/bin/basalt
# What it is made of (CycloneDX), for those who look for vulnerabilities.
COPY --from=build /basalt.cdx.json /usr/share/sbom/basalt.cdx.json
USER 10001:10001
ENV BASALT_STORE=/data \
    BASALT_LISTEN=0.0.0.0:7700 \
    BASALT_METRICS_LISTEN=0.0.0.0:7702
VOLUME /data
# Clients, peers, HTTP, and clients of PostgreSQL where BASALT_POSTGRES says so.
EXPOSE 7700 7701 7702 7705
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["basalt", "health", "--timeout", "4s"]
ENTRYPOINT ["basalt"]
CMD ["serve"]
