/** An entry of a view as the server tells it, as far as clients show it. Fields that a question leaves out are absent. */
export interface Entry {
  readonly name?: string
  readonly path: string
  readonly content_type?: string
  readonly size?: number
  readonly modified_time?: number
  readonly integrity_suspect?: boolean
  readonly agent_missing?: boolean
}
