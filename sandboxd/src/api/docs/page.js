// The badge of Swagger UI's own validator would be fetched from elsewhere, so there is none.
SwaggerUIBundle({
  dom_id: "#ui",
  url: "openapi.json",
  validatorUrl: null,
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
});
