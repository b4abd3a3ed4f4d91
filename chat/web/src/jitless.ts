// zod, which the AI SDK checks each chunk with, tries `new Function` to see whether it may compile its checks. The
// page's security policy forbids that, and the attempt alone is reported as a violation, so it is told not to try.
// This must run before the first check, and so before everything else.
import { config } from "zod/v4/core";

config({ jitless: true });
