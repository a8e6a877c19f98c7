/** The form of the fixture server's routes: each gets the scene and a request, and returns the response that the contract declares. */
import type { BodyOf, ParamsOf, QueryOf, ResponseOf, RouteKey } from '@bellwether/protocol/http'
import type { World } from './world.js'

export interface Scene {
  readonly world: World
  readonly isEmpty: boolean
  isAnswered(call: string): boolean
}

export type Handlers = {
  readonly [Key in RouteKey]?: (
    scene: Scene,
    request: { readonly params: ParamsOf<Key>; readonly query: QueryOf<Key>; readonly body: BodyOf<Key> },
  ) => ResponseOf<Key> | undefined
}
