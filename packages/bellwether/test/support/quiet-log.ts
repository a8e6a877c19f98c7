/** A logger for tests that are not about logging. */
import type { Log } from '@bellwether/base'

export const quietLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined }
