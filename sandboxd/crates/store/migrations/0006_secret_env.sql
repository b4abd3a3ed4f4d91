-- Names of the variables in `env` whose values are replaced in the output of commands, as JSON.
ALTER TABLE sandboxes ADD COLUMN secret_env TEXT NOT NULL DEFAULT '[]';
