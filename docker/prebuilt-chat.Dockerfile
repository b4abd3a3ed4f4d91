# The image of the chat with a program that was built on this machine, for machines that reach no container registry. `make up`
# fills the build context (scripts/lib/stack.sh), and docker/make-base builds the base. The steps are the same as in
# Dockerfile. Each program has its own file, because the older builder builds every stage up to its target.

ARG BASE_IMAGE=sandboxd-base:trixie

FROM ${BASE_IMAGE}
COPY answers /usr/local/bin/answers
COPY chat /usr/bin/sandboxd-chat
COPY config.toml /etc/sandboxd-chat/config.toml
# A new volume takes its owner and mode from this directory.
RUN ldd /usr/bin/sandboxd-chat >/dev/null \
 && echo 'chat:x:10001:10001:chat:/var/lib/sandboxd-chat:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'chat:x:10001:' >> /etc/group \
 && mkdir -p -m 700 /var/lib/sandboxd-chat && chown 10001:10001 /var/lib/sandboxd-chat
USER 10001:10001
EXPOSE 3000
ENTRYPOINT ["/usr/bin/sandboxd-chat"]
