-- Set where an entry is not a command: a run of code in a context, or a call of a tool by a run.
ALTER TABLE history ADD COLUMN context TEXT;
-- Number of the call in its context. Null for a run.
ALTER TABLE history ADD COLUMN tool_call INTEGER;
-- How the run or the call ended.
ALTER TABLE history ADD COLUMN status TEXT;
