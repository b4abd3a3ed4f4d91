# The image of the chat, of a program that was built on this machine, for machines that reach no container registry. The context is a
# directory that `make up` fills (scripts/lib/stack.sh), and the base is what docker/make-base makes. The steps are those of
# Dockerfile. Each program has a file of its own, because the older builder makes every stage up to its target.

ARG BASE_IMAGE=sandboxd-base:trixie

FROM ${BASE_IMAGE}
COPY answers /usr/local/bin/answers
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
