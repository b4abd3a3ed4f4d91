begin
settle "$SEED_STAGE"
