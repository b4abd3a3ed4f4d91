// An address that was opened with a password in it cannot be fetched from, so its parts without one are used.
const document_url = new URL("openapi.json", location.origin + location.pathname);

// The badge of Swagger UI's own validator would be fetched from elsewhere, so there is none.
SwaggerUIBundle({
  dom_id: "#ui",
  url: document_url.href,
  validatorUrl: null,
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
});
