# Built static, shipped without a shell, run as nobody.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN mkdir -p /out/lib && mkdir -m 0700 /out/lib/sidenote
# The version and commit of the image, as "sidenote version" prints them. By default those of the repository.
ARG VERSION COMMIT
RUN version=${VERSION:-$(git describe --tags --always 2>/dev/null || echo unknown)} && \
    commit=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)} && \
    CGO_ENABLED=0 go build -buildvcs=false -trimpath -o /out/sidenote -ldflags="-s -w \
      -X sidenote/cmd/sidenote/internal/server.stampedVersion=$version \
      -X sidenote/cmd/sidenote/internal/server.stampedCommit=$commit" ./cmd/sidenote

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/sidenote /sidenote
COPY --from=build --chown=65532:65532 /out/lib /var/lib
USER 65532:65532
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
