# Basalt in an image: compiled from source, then the one binary on Debian, as a user without rights, with nothing
# to write to but its store.
#
#   docker build -t basalt .                                    the profile `dist`: link-time optimised, 3x as long
#   docker build -t basalt --build-arg PROFILE=release .        what docker-compose.yml builds: the cluster is up sooner

FROM rust:1-bookworm AS build
ARG PROFILE=dist
WORKDIR /src
COPY . .
RUN cargo build --locked --profile "$PROFILE" --package basalt-server \
    && cp "target/$PROFILE/basalt" /basalt \
    && strip /basalt \
    && rm -rf target

FROM debian:bookworm-slim
# The roots that a store behind https is checked by.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /basalt /usr/local/bin/basalt
# A named volume mounted here takes over the folder's owner.
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin basalt \
    && install --directory --owner=basalt --group=basalt /data
USER 10001:10001
ENV BASALT_LISTEN=0.0.0.0:7700 \
    BASALT_METRICS_LISTEN=0.0.0.0:7702
# Clients, peers, metrics.
EXPOSE 7700 7701 7702
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["basalt", "health", "--timeout", "4s"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["basalt"]
CMD ["serve"]
