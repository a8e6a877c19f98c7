/** The public client: a running server over HTTP. */
export { openClient, type Address, type Asking, type Client } from './client.js'
export type { ServerEvent } from './events.js'
export { beginTurn, followTurn, readTurn, type Turn, type TurnOrder } from './turns.js'
