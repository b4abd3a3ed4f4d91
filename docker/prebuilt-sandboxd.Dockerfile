# The image of sandboxd with programs that were built on this machine, for machines that reach no container registry. `make up`
# fills the build context (scripts/lib/stack.sh), and docker/make-base builds the base. The steps are the same as in
# Dockerfile. Each program has its own file, because the older builder builds every stage up to its target.

ARG BASE_IMAGE=sandboxd-base:trixie

FROM ${BASE_IMAGE}
COPY answers /usr/local/bin/answers
COPY sandboxd /usr/bin/sandboxd
COPY sandbox-agent sandboxd-volumes /usr/lib/sandboxd/
COPY sandbox-images /usr/share/sandboxd/sandbox-images
# A program that was built on a newer system than the base fails here, not at the first start.
RUN sandboxd --version && mkdir -p -m 700 /var/lib/sandboxd
EXPOSE 8080 8081
ENTRYPOINT ["/usr/bin/sandboxd"]
CMD ["serve"]
