# The images of the programs, `--target sandboxd` and `--target chat`, of programs that were built on this machine.
#
# For machines that reach no container registry. The context is a directory that `make up` fills (scripts/lib/stack.sh),
# and the base is what docker/make-base makes. The last stages are those of Dockerfile.

ARG BASE_IMAGE=sandboxd-base:trixie

FROM ${BASE_IMAGE} AS base
COPY answers /usr/local/bin/answers

FROM base AS sandboxd
COPY sandboxd /usr/bin/sandboxd
COPY sandbox-agent /usr/lib/sandboxd/sandbox-agent
COPY sandbox-images /usr/share/sandboxd/sandbox-images
# A program that was built on a newer system than the base fails here, and not at the first start.
RUN sandboxd --version && mkdir -p -m 700 /var/lib/sandboxd
EXPOSE 8080 8081
ENTRYPOINT ["/usr/bin/sandboxd"]
CMD ["serve"]

FROM base AS chat
COPY chat /usr/bin/sandboxd-chat
COPY config.toml /etc/sandboxd-chat/config.toml
# A volume that is new takes owner and mode from here.
RUN ldd /usr/bin/sandboxd-chat >/dev/null \
 && echo 'chat:x:10001:10001:chat:/var/lib/sandboxd-chat:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'chat:x:10001:' >> /etc/group \
 && mkdir -p -m 700 /var/lib/sandboxd-chat && chown 10001:10001 /var/lib/sandboxd-chat
USER 10001:10001
EXPOSE 3000
ENTRYPOINT ["/usr/bin/sandboxd-chat"]
