// A proxy on loopback that adds the token to every request and changes nothing else. It prints its port.
// It keeps a connection as long as the daemon's headers say: the end of its own five seconds could meet a request.
// Arguments: the server's base URL, the token.

import http from 'node:http'

const [base, token] = process.argv.slice(2)
const { hostname, port } = new URL(base)

http
  .createServer({ keepAliveTimeout: 120_000 }, (request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` }
    const options = { hostname, port, path: request.url, method: request.method, headers, setHost: false }
    const upstream = http.request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    })
    upstream.on('error', () => response.destroy())
    response.on('close', () => upstream.destroy())
    request.pipe(upstream)
  })
  .listen(0, '127.0.0.1', function () {
    console.log(this.address().port)
  })
