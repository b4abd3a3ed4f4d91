// If the page's URL contains a password, fetch rejects it. So the document's URL is built without user name and password.
const document_url = new URL("openapi.json", location.origin + location.pathname);

// Swagger UI's validator badge would be loaded from another site, so it is disabled.
SwaggerUIBundle({
  dom_id: "#ui",
  url: document_url.href,
  validatorUrl: null,
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
});
