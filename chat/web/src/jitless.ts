// The AI SDK checks each chunk with zod, which tries `new Function` to find out whether it can compile its checks.
// The page's security policy forbids that, and even the attempt is reported as a violation, so it is disabled. This
// must run before the first check, and therefore before everything else.
import { config } from "zod/v4/core";

config({ jitless: true });
