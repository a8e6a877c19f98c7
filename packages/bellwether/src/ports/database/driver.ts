/** The PostgreSQL driver. Everything here imports it through this file, which keeps it from loading Node's HTTP client. */
import { forgetRuntime } from './named-runtime.js'

forgetRuntime()

export { default } from 'pg'
