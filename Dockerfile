# Built static, shipped without a shell, run as nobody.
#
# GO_IMAGE can be pinned: GO_IMAGE=golang:1.26@sha256:DIGEST. The builder runs on the machine's own architecture and
# compiles for that of the image.
ARG GO_IMAGE=golang:1.26
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN mkdir -p /out/lib && mkdir -m 0700 /out/lib/sidenote
# The version and commit of the image, as "sidenote version" prints them. By default those of the repository, which
# belongs to another user than the builder's.
ARG VERSION COMMIT TARGETOS TARGETARCH
RUN git="git -c safe.directory=/src" && \
    version=${VERSION:-$($git describe --tags --always 2>/dev/null || echo unknown)} && \
    commit=${COMMIT:-$($git rev-parse HEAD 2>/dev/null || echo unknown)} && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -buildvcs=false -trimpath -o /out/sidenote -ldflags="-s -w \
      -X sidenote/cmd/sidenote/internal/server.stampedVersion=$version \
      -X sidenote/cmd/sidenote/internal/server.stampedCommit=$commit" ./cmd/sidenote

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/sidenote /sidenote
COPY --from=build --chown=65532:65532 /out/lib /var/lib
USER 65532:65532
ARG VERSION COMMIT
LABEL org.opencontainers.image.title="Sidenote" \
      org.opencontainers.image.description="Sidecar proxy that adds the right sources to chat requests" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
# It listens beyond loopback, so serve wants tenants with keys, or to be told --open.
ENV SIDENOTE_LISTEN=0.0.0.0:8080 \
    SIDENOTE_ADMIN=127.0.0.1:8081 \
    SIDENOTE_TELEMETRY=0.0.0.0:9464 \
    SIDENOTE_STATE=/var/lib/sidenote \
    SIDENOTE_READY=knowledge \
    SIDENOTE_SHUTDOWN_DELAY=5s
EXPOSE 8080 9464
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/sidenote", "health"]
ENTRYPOINT ["/sidenote"]
CMD ["serve"]
