# The image of divvy for those who have Docker; `cargo xtask image` makes the same without it.
#   docker build --tag divvy:0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package divvy --bins
# The programs, the libraries that they load, and where those want to be; no shell. It is not static:
# in a reservation pod it loads NVIDIA's management library.
RUN set -e; mkdir -p /image/usr/bin /image/dev /image/proc /image/sys; mkdir -m 1777 /image/tmp; \
    for program in divvy divvy-isolation-check; do \
      cp target/release/$program /image/usr/bin/; \
      for library in $(ldd target/release/$program | grep -o '/[^ ]*'); do \
        install -D "$library" "/image$library"; \
      done; \
    done

FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["/usr/bin/divvy"]
