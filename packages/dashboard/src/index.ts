/**
 * The dashboard is the browser's window on the fleet: agents, turns, the board and the view, over HTTP and SSE.
 * It imports the protocol only. Nothing is exported yet.
 */
export {}
