/** The public client: a running server over HTTP. */
export { openClient, type Address, type Client, type Request, type StreamEvent, type StreamRequest } from './client.js'
export {
  deliverableText,
  followTurn,
  forkTurn,
  readTurn,
  startTurn,
  type FollowOptions,
  type Fork,
  type NewTurn,
} from './turns.js'
