import { type Log, systemClock, systemRandom } from '@bellwether/base'
import { expect, it } from 'vitest'
import { uuidv7 } from '../../ports/ids.js'
import { loadSettings } from '../../settings/load.js'
import { openViews } from './views.js'

const ignore = () => undefined
const log: Log = { info: ignore, warn: ignore, error: ignore }

/** [live, strict] of the views a and b. */
function typesOf(env: Record<string, string>, persistent: readonly string[] = []) {
  const settings = loadSettings({ folder: '/nowhere', env }).view
  const fusion = openViews({ names: ['a', 'b'], settings, persistent, ids: uuidv7(systemClock, systemRandom), log })
  return [...fusion.views.values()].map((view) => [view.settings.live, view.settings.strict])
}

it('[V5.8] the type is a property of each view: live by default, persistent or strict if it is listed', () => {
  const byDefault = [true, false]
  expect(typesOf({})).toEqual([byDefault, byDefault])
  const listed = { BELLWETHER__VIEW__PERSISTENT: 'x, b', BELLWETHER__VIEW__STRICT: 'a' }
  expect(typesOf(listed)).toEqual([
    [true, true],
    [false, false],
  ])
  expect(typesOf({ BELLWETHER__VIEW__LIVE: 'false' }).map(([live]) => live)).toEqual([false, false])
  expect(typesOf({}, ['a']).map(([live]) => live)).toEqual([false, true])
})
