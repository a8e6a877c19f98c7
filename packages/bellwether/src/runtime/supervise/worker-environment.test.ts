import { expect, it } from 'vitest'
import { withoutOwnSecrets } from './worker-environment.js'

it('workers get settings and keys of models, but no secret of the server', () => {
  const kept = { OPENAI_API_KEY: 'm', BELLWETHER__WORKER__CONCURRENCY: '2', BELLWETHER__NATS__URL: 'nats://bus' }
  const secrets = {
    BELLWETHER_KEY: 'k',
    BELLWETHER__DATABASE__URL: 'u',
    BELLWETHER__DATABASE__WORKER_URL: 'u',
    BELLWETHER__DATABASE__DIRECT_URL: 'u',
    BELLWETHER__OIDC__CLIENT_SECRET: 's',
    BELLWETHER__OIDC__CLIENT_SECRET_FILE: 'f',
    BELLWETHER__BOARD__VIEW_KEY: 'k',
    BELLWETHER__NOTIFY__SLACK_WEBHOOK_URL: 'u',
    BELLWETHER__PMO__EVENT_WEBHOOK_URL: 'u',
  }
  expect(withoutOwnSecrets({ ...kept, ...secrets })).toEqual(kept)
})
