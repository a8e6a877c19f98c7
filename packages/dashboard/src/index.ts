/** Entry point of the browser. */
import { start } from './app.js'
import { startTheme } from './theme.js'

startTheme()
start(document.getElementById('root')!)
