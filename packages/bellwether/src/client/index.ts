/** The public client: a running server over HTTP. */
export { openClient, type Address, type Client, type Request, type StreamEvent, type StreamRequest } from './client.js'
export { deliverableText, followTurn, readTurn, startTurn, type FollowOptions, type NewTurn } from './turns.js'
