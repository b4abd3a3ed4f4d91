# The image of sandboxd, of programs that were built on this machine, for machines that reach no container registry. The context is a
# directory that `make up` fills (scripts/lib/stack.sh), and the base is what docker/make-base makes. The steps are those of
# Dockerfile. Each program has a file of its own, because the older builder makes every stage up to its target.

ARG BASE_IMAGE=sandboxd-base:trixie

FROM ${BASE_IMAGE}
COPY answers /usr/local/bin/answers
COPY sandboxd /usr/bin/sandboxd
COPY sandbox-agent /usr/lib/sandboxd/sandbox-agent
COPY sandbox-images /usr/share/sandboxd/sandbox-images
# A program that was built on a newer system than the base fails here, and not at the first start.
RUN sandboxd --version && mkdir -p -m 700 /var/lib/sandboxd
EXPOSE 8080 8081
ENTRYPOINT ["/usr/bin/sandboxd"]
CMD ["serve"]
